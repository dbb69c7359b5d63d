# SPDX-License-Identifier: Apache-2.0
"""The allocation problem: what is asked, within which limits, over which curves."""
