# SPDX-License-Identifier: Apache-2.0
"""What one tenant is to have after a cycle, and what an operator pinned of that."""

from dataclasses import dataclass

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.planned import Plan


@dataclass(frozen=True)
class Wish:
    """What one tenant is to have; None leaves it as it is. `ordered` is an operator's."""

    policy: str | None = None
    limit_bytes: int | None = None
    ordered: bool = False


NO_WISH = Wish()


def pinned(plan: Plan, objectives: Objectives) -> dict[str, Wish]:
    """What pins ask for now, in whatever mode a tenant is, by cgroup; it needs no evidence.

    The plan gives a pinned limit at once, as far as it fits. A tenant whose pin is obeyed has a
    wish too, that changes nothing.
    """
    if all(one.fixed is None for one in objectives.pinned):
        return {}
    asked = ((action, objectives.of(action.cgroup).fixed) for action in plan.actions)
    return {
        action.cgroup: Wish(
            policy=None if fixed.policy is None else action.policy,
            limit_bytes=None if fixed.limit_bytes is None else action.limit_bytes,
            ordered=True,
        )
        for action, fixed in asked
        if fixed is not None
    }
