# SPDX-License-Identifier: Apache-2.0
"""The SQLite store, which outlives the controller: journal, history, and their schema."""
