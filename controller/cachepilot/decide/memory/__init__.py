# SPDX-License-Identifier: Apache-2.0
"""Changes of memory: decisions on the limits of all tenants of a node."""
