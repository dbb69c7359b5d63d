# SPDX-License-Identifier: Apache-2.0
"""Factors to convert times, and the greatest size."""

US_PER_S = 1e6
DAY_S = 86_400.0
BYTES_MAX = 1 << 48
"""The greatest amount of memory, 256 TiB, also of a curve; sums of it stay exact."""
