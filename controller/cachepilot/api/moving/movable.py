# SPDX-License-Identifier: Apache-2.0
"""Plans that move nobody whom nobody can move.

An agent shows tenants that whoever moves them does not have on that node, as slices of the system.
It is asked of those alone that a plan moves.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from cachepilot.domain.consolidation import Drain

Plan = TypeVar("Plan")
Staying = frozenset[tuple[str, str]]
"""Tenants that stay where they are, by node and cgroup."""


def of_movable(
    plan: Callable[[Staying], Plan],
    drains: Callable[[Plan], Iterable[Drain]],
    can_leave: Callable[[str, str], bool],
) -> Plan:
    """What is planned once all stay of whom `can_leave` says, by node and cgroup, that they do."""
    staying: Staying = frozenset()
    while True:
        found = plan(staying)
        moves = {(one.from_node, one.cgroup) for drain in drains(found) for one in drain.moves}
        more = {one for one in moves - staying if not can_leave(*one)}
        if not more:
            return found
        staying |= more
