# SPDX-License-Identifier: Apache-2.0
"""Immutable values that every layer uses, and the texts from which they are parsed."""
