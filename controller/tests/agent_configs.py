# SPDX-License-Identifier: Apache-2.0
"""What the configurations of agents in tests have in common."""

ONE_TENANT = """
[simulated]
budget_bytes = 16777216

[[simulated.tenant]]
cgroup = "/a"
service_us = 100.0
limit_bytes = 8388608

[[simulated.tenant.phase]]
source = { kind = "uniform", pages = 4000 }
"""
"""The end of a configuration: a simulated node with one tenant."""
