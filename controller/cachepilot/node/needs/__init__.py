# SPDX-License-Identifier: Apache-2.0
"""What the tenants of a node needed in the last day, and its free memory, for consolidation."""
