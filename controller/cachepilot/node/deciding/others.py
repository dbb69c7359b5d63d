# SPDX-License-Identifier: Apache-2.0
"""Changes of tenants that this controller did not make.

Somebody else may set a tenant's limit. And a node may report an unconfirmed change that was made by
a controller whose store is lost.
"""

from collections.abc import Mapping

from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.node.deciding.tenant_state import UNKNOWN_ORDER, Recent, TenantState
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sense.conditions import yielded_since_us


def foreign(states: Mapping[str, TenantState], seen: Mapping[str, Seen]) -> frozenset[str]:
    """Tenants with an unconfirmed change that this controller does not know.

    A change is named by the epoch of the plan that began it, which is stored before the plan is
    sent. A change with another name was made by a controller whose store is lost. It is neither
    renewed nor confirmed, so the node is about to undo it. A change that began meanwhile would have
    that setting as its rollback.
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
    """Tenants whose limit must not be set now. Call this once per snapshot.

    If somebody else rewrites a limit, the agent sets it once more, and yields after that. The
    memory of such a tenant is not moved, because the two would otherwise rewrite the limit in every
    cycle. That ends when an operator pins a limit, where there was no pin or another one before: it
    is sent to the agent once. A pin that already existed when the agent yielded is not sent.
    """
    return frozenset(
        cgroup
        for cgroup, seen in collected.seen.items()
        if _is_left_alone(
            recents[cgroup], yielded_since_us(seen.wire), _ordered_bytes(objectives.of(cgroup))
        )
    )
