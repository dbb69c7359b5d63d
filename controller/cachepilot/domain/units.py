# SPDX-License-Identifier: Apache-2.0
"""Units that times are converted by, and the greatest size."""

US_PER_S = 1e6
DAY_S = 86_400.0
BYTES_MAX = 1 << 48
"""The greatest amount of memory, 256 TiB, and that of a curve: sums of it stay exact."""
