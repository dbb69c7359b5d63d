# SPDX-License-Identifier: Apache-2.0
"""The setting that one tenant should have after a cycle, and the part of it that is pinned."""

from dataclasses import dataclass

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.planned import Plan


@dataclass(frozen=True)
class Wish:
    """A setting for one tenant; None leaves a part as it is."""

    policy: str | None = None
    limit_bytes: int | None = None


NO_WISH = Wish()


def pinned(plan: Plan, objectives: Objectives) -> dict[str, Wish]:
    """Return the wishes that pins ask for now, by cgroup, in every mode and without evidence.

    The plan sets a pinned limit at once, up to what fits. A tenant that already has what is pinned
    has a wish too, which changes nothing.
    """
    if all(one.fixed is None for one in objectives.pinned):
        return {}
    asked = ((action, objectives.of(action.cgroup).fixed) for action in plan.actions)
    return {
        action.cgroup: Wish(
            policy=None if fixed.policy is None else action.policy,
            limit_bytes=None if fixed.limit_bytes is None else action.limit_bytes,
        )
        for action, fixed in asked
        if fixed is not None
    }
