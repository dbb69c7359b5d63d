# SPDX-License-Identifier: Apache-2.0
"""Time series of tenants: in memory, packed for the store, and read over any range."""
