# SPDX-License-Identifier: Apache-2.0
"""What a fleet needs at least, and which of its nodes the others could take over."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LeastMemory:
    """The least memory of one tenant that keeps its SLOs, or what it does now without any.

    `has_slo`: it has an SLO. `known`: it is known what it needs, which it is not where curves or
    readings are missing. `kept`: what it needs can be had at all, if that is known.
    `more_of_this_kind`: how many more like it fit on its node, by memory and by device.
    """

    node: str
    cgroup: str
    policy: str
    limit_bytes: int
    least_policy: str
    least_bytes: int
    has_slo: bool
    known: bool
    kept: bool
    more_of_this_kind: int
    note: str = ""
    """What is said of the row, in words that follow from its numbers."""


@dataclass(frozen=True)
class Consolidation:
    """Least memory per tenant; of each drainable node, which node each cgroup would go to."""

    nodes: int
    tenants: list[LeastMemory]
    drainable: list[str]
    moves: dict[str, dict[str, str]]
    notes: list[str]
