# SPDX-License-Identifier: Apache-2.0
"""One node: from its snapshots to what is done about them, and what is stored of it."""
