# SPDX-License-Identifier: Apache-2.0
"""The state of a node's tenants, and what is decided about them."""
