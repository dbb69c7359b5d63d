# SPDX-License-Identifier: Apache-2.0
"""Execution of a consolidation: moves tenants between nodes, and undoes moves that miss an SLO."""
