# SPDX-License-Identifier: Apache-2.0
"""One node: what is measured, planned and decided, and what becomes of it."""
