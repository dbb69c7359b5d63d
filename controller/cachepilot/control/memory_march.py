# SPDX-License-Identifier: Apache-2.0
"""Memory on its way to where it gains, though steps on that way lose.

The plan of a cycle is the best within what may move in it. A cliff beyond that is never reached by
such plans: giving memory up costs at once, and getting it gains nothing before all of it is there.
So memory that moves for what is gained in the end goes there straight, in steps of the same bound.
"""

from collections.abc import Mapping
from dataclasses import replace

from cachepilot.control.memory_gain import falls_short, is_a_step, needs_memory
from cachepilot.control.memory_member import MemoryLook
from cachepilot.control.memory_trial import MemoryTrial
from cachepilot.control.policy_guard import TenantState
from cachepilot.planner.decision import Action, Held
from cachepilot.planner.objectives import Goal
from cachepilot.sizes import pages_down


def planned(look: MemoryLook, states: Mapping[str, TenantState]) -> dict[str, Action]:
    """Limits that the plan of the cycle changes, of tenants whose limit may change now."""
    found = {}
    for action in look.plan.actions:
        if not is_a_step(action) or action.held is not Held.NOT or action.cgroup in look.busy:
            continue
        if look.time_s >= states[action.cgroup].limit_cool_until_s:
            found[action.cgroup] = action
    return found


def goes_straight(trial: MemoryTrial, look: MemoryLook) -> bool:
    """Whether memory moves for throughput, and not because it must."""
    return trial.ways is not None and look.objectives.goal is Goal.THROUGHPUT


def _ahead_bytes(
    trial: MemoryTrial, look: MemoryLook, states: Mapping[str, TenantState]
) -> dict[str, tuple[Action, int]]:
    """How far the limit of everyone is from where it is to be, of those whose limit may change."""
    found = {}
    needy = needs_memory(look.plan) | falls_short(look.collected, look.plan)
    for action in look.plan.actions:
        cgroup = action.cgroup
        end = trial.ends.get(cgroup)
        if end is None or action.held is not Held.NOT or cgroup in look.busy:
            continue
        size = end - action.present.limit_bytes
        # Its promise was to be kept with less, and the newest curves say that it is not.
        owes = size < 0 and cgroup in needy
        if not owes and look.time_s >= states[cgroup].limit_cool_until_s:
            found[cgroup] = action, size
    return found


def towards(
    trial: MemoryTrial, look: MemoryLook, states: Mapping[str, TenantState]
) -> dict[str, Action]:
    """The next steps of those on their way, none longer than `look.step_bytes`.

    All get there together, and nobody is promised more than is free or given up by others.
    """
    ahead = _ahead_bytes(trial, look, states)
    held = sum(seen.limit_bytes for seen in look.collected.seen.values())
    free = max(0, look.collected.snapshot.node.budget_bytes - held)
    given = sum(-size for _, size in ahead.values() if size < 0)
    asked = sum(size for _, size in ahead.values() if size > 0)
    part = min(1.0, (free + given) / asked) if asked else 0.0
    parts = {cgroup: part * size if size > 0 else size for cgroup, (_, size) in ahead.items()}
    longest = max(map(abs, parts.values()), default=0.0)
    share = min(1.0, look.step_bytes / max(longest, 1.0))
    found = {}
    for cgroup, (action, _) in ahead.items():
        change = pages_down(int(share * abs(parts[cgroup])))
        here = action.present.limit_bytes
        step = replace(action, limit_bytes=here + (change if parts[cgroup] > 0 else -change))
        if is_a_step(step):
            found[cgroup] = step
    return found
