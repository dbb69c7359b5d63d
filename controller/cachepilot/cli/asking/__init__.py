# SPDX-License-Identifier: Apache-2.0
"""How commands ask a controller."""
