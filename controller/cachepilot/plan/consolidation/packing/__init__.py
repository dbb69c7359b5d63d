# SPDX-License-Identifier: Apache-2.0
"""Packing the tenants of some nodes into others, by a heuristic and by a program."""
