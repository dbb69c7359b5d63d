# SPDX-License-Identifier: Apache-2.0
"""Who changed what operators state, and who was refused: rows of the history."""
