# SPDX-License-Identifier: Apache-2.0
"""What the past is told by: changes and who made them, and what was measured before them."""
