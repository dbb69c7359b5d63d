# SPDX-License-Identifier: Apache-2.0
"""What is known of how tenants respond to a setting."""
