# SPDX-License-Identifier: Apache-2.0
"""Actions that may be sent although the cycle could not be stored: rollbacks and orders.

Anything else that a cycle decides is sent after it is stored, so that a controller that restarts
knows how to roll back every change in force. A rollback needs no such record, and an order is
stored with its pin or its objectives.
"""

from collections.abc import Container, Mapping
from dataclasses import replace

from cachepilot.decide.state import PolicyState, is_rollback
from cachepilot.node.deciding.tenant_state import TenantState
from cachepilot.node.deciding.wish import NO_WISH, Wish


def rollbacks(
    wishes: Mapping[str, Wish],
    orders: Mapping[str, Wish],
    states: Mapping[str, TenantState],
    restore: Container[str],
) -> dict[str, Wish]:
    """Return the part of `wishes` that begins no change.

    That is an operator's `orders`, policies that go back, and limits of the cgroups in `restore`,
    which are going back.
    """
    found = {}
    for cgroup, wish in wishes.items():
        ordered_limit = orders.get(cgroup, NO_WISH).limit_bytes
        policy = wish.policy if _may_go(states[cgroup].policy) else None
        limit = wish.limit_bytes if cgroup in restore else ordered_limit
        if policy is not None or limit is not None:
            found[cgroup] = replace(wish, policy=policy, limit_bytes=limit)
    return found


def _may_go(state: PolicyState) -> bool:
    """Whether the wished policy begins no change. If nothing is `wanted`, it is an order."""
    return state.wanted is None or is_rollback(state)
