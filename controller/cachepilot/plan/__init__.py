# SPDX-License-Identifier: Apache-2.0
"""The planner: a pure function from a snapshot, objectives and a configuration to a plan."""
