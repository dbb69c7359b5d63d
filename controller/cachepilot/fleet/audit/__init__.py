# SPDX-License-Identifier: Apache-2.0
"""Rows of the history: who changed objectives and pins, and whose requests were refused."""
