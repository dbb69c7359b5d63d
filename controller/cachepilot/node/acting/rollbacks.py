# SPDX-License-Identifier: Apache-2.0
"""What may be sent although it is not stored: the rollback of a change, and an operator's order.

Whatever else a cycle decides is sent once it is stored, so that no change is ever in force of which
a restarted controller does not know how it is rolled back. A rollback needs no such memory, and an
order is stored with its pin or its objectives.
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
    """The part of `wishes` that begins nothing; limits of those in `restore` are going back."""
    found = {}
    for cgroup, wish in wishes.items():
        ordered_limit = orders.get(cgroup, NO_WISH).limit_bytes
        policy = wish.policy if _may_go(states[cgroup].policy) else None
        limit = wish.limit_bytes if cgroup in restore else ordered_limit
        if policy is not None or limit is not None:
            found[cgroup] = replace(wish, policy=policy, limit_bytes=limit)
    return found


def _may_go(state: PolicyState) -> bool:
    """Whether the policy that is wished for begins nothing: without `wanted` it is ordered."""
    return state.wanted is None or is_rollback(state)
