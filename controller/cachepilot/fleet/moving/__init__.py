# SPDX-License-Identifier: Apache-2.0
"""Consolidation, carried out: tenants move from node to node, and back where an SLO is missed."""
