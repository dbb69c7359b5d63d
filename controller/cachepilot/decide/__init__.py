# SPDX-License-Identifier: Apache-2.0
"""Which setting replaces which, when, and when it is undone: pure functions."""
