# SPDX-License-Identifier: Apache-2.0
"""The allocation problem: what operators request, the bounds of limits, and the curves."""
