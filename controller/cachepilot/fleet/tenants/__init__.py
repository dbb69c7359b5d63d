# SPDX-License-Identifier: Apache-2.0
"""Tenants across the nodes of a fleet: where their paths are, and what they needed there."""
