# SPDX-License-Identifier: Apache-2.0
"""What is sent to a node of what was decided."""
