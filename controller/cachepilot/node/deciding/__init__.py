# SPDX-License-Identifier: Apache-2.0
"""What a node's tenants are, and what is decided about them."""
