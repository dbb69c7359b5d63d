# SPDX-License-Identifier: Apache-2.0
"""`cachepilot top`: tenants full screen."""
