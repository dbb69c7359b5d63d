# SPDX-License-Identifier: Apache-2.0
"""What an operator pinned, as orders that need no trial."""

from cachepilot.control.wish import Wish
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.planned import Plan


def orders(plan: Plan, objectives: Objectives) -> dict[str, Wish]:
    """What pins ask for now, in whatever mode a tenant is, by cgroup.

    The plan gives a pinned limit at once, as far as it fits. A tenant whose pin is obeyed has an
    order too, that changes nothing.
    """
    fixed = {one.pattern: one.fixed for one in objectives.pinned if one.fixed is not None}
    if not fixed:
        return {}
    return {
        action.cgroup: Wish(
            policy=None if fixed[action.cgroup].policy is None else action.policy,
            limit_bytes=None if fixed[action.cgroup].limit_bytes is None else action.limit_bytes,
            ordered=True,
        )
        for action in plan.actions
        if action.cgroup in fixed
    }
