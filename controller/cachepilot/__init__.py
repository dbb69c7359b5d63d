# SPDX-License-Identifier: Apache-2.0
"""The page cache on autopilot."""
