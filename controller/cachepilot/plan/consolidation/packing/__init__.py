# SPDX-License-Identifier: Apache-2.0
"""Pack the tenants of some nodes into others, by a heuristic and by an integer program."""
