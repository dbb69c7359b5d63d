# SPDX-License-Identifier: Apache-2.0
"""Tenants of a fleet: on which nodes their paths are, and what they needed there."""
