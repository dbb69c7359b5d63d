# SPDX-License-Identifier: Apache-2.0
"""The decider: which setting replaces which, when, and when a change is undone. Pure functions."""
