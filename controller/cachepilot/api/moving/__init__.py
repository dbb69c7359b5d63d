# SPDX-License-Identifier: Apache-2.0
"""The HTTP interface for the execution of a consolidation."""
