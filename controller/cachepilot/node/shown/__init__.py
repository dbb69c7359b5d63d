# SPDX-License-Identifier: Apache-2.0
"""What one cycle left to be looked at."""
