# SPDX-License-Identifier: Apache-2.0
"""Changes of memory: the limits of all tenants of a node."""
