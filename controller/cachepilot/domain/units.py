# SPDX-License-Identifier: Apache-2.0
"""Units that times are converted by."""

US_PER_S = 1e6
DAY_S = 86_400.0
