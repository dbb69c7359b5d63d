# SPDX-License-Identifier: Apache-2.0
"""What outlives the controller, in SQLite: journal, history, and their schema."""
