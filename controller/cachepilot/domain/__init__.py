# SPDX-License-Identifier: Apache-2.0
"""Immutable values that every layer speaks of, and the texts that they are read from."""
