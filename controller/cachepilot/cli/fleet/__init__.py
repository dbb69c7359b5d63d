# SPDX-License-Identifier: Apache-2.0
"""Commands about tenants and nodes, answered by a controller."""
