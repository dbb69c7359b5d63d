# SPDX-License-Identifier: Apache-2.0
"""What others change of tenants: limits, and what a controller whose store is lost began."""

from collections.abc import Mapping

from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.node.deciding.tenant_state import UNKNOWN_ORDER, Recent, TenantState
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sense.conditions import yielded_since_us


def foreign(states: Mapping[str, TenantState], seen: Mapping[str, Seen]) -> frozenset[str]:
    """Tenants of whom something waits that nothing is known of: the node is about to undo it.

    A change is named by the epoch of the plan that began it, which is in the store before it is
    sent. What waits under another name was made by a controller whose store is lost: it is neither
    renewed nor confirmed. A change that began meanwhile would have that to go back to.
    """
    return frozenset(
        cgroup
        for cgroup, found in seen.items()
        if found.wire.HasField("unconfirmed")
        and not found.wire.unconfirmed.undone
        and found.wire.unconfirmed.epoch not in states[cgroup].changes
    )


def _ordered_bytes(objective: Objective) -> int | None:
    return None if objective.fixed is None else objective.fixed.limit_bytes


def _is_left_alone(recent: Recent, since_us: int | None, ordered_bytes: int | None) -> bool:
    before, recent.ordered_bytes = recent.ordered_bytes, ordered_bytes
    if since_us is None or ordered_bytes is None:
        recent.anew_us = None
    elif before not in (UNKNOWN_ORDER, ordered_bytes):
        recent.anew_us = since_us
    return since_us is not None and recent.anew_us != since_us


def left_alone(
    collected: Collected, objectives: Objectives, recents: dict[str, Recent]
) -> frozenset[str]:
    """Whose limits are left to who else sets them. To be called once per snapshot.

    The agent insists once on a limit that somebody else rewrites, and yields after that. Memory of
    such a tenant is not moved, or the fight would go on at the pace of the control loop, until an
    operator pins a limit: another than before, or one where there was none. That goes to the agent
    once; a pin that was there already when the agent yielded is not insisted on.
    """
    return frozenset(
        cgroup
        for cgroup, seen in collected.seen.items()
        if _is_left_alone(
            recents[cgroup], yielded_since_us(seen.wire), _ordered_bytes(objectives.of(cgroup))
        )
    )
