# SPDX-License-Identifier: Apache-2.0
"""Plans that move only tenants which the provider can move.

An agent also reports tenants that the provider does not have on that node, such as systemd slices.
Only tenants that a plan moves are checked with the provider.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from cachepilot.domain.consolidation import Drain

Plan = TypeVar("Plan")
Staying = frozenset[tuple[str, str]]
"""Tenants that must stay where they are, as pairs of node and cgroup."""


def of_movable(
    plan: Callable[[Staying], Plan],
    drains: Callable[[Plan], Iterable[Drain]],
    can_leave: Callable[[str, str], bool],
) -> Plan:
    """Plan repeatedly until every moved tenant can leave by `can_leave(node, cgroup)`.

    Tenants that cannot leave are marked as staying before the next attempt. `drains` extracts the
    drains of a plan.
    """
    staying: Staying = frozenset()
    while True:
        found = plan(staying)
        moves = {(one.from_node, one.cgroup) for drain in drains(found) for one in drain.moves}
        more = {one for one in moves - staying if not can_leave(*one)}
        if not more:
            return found
        staying |= more
