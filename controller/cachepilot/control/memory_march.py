# SPDX-License-Identifier: Apache-2.0
"""Memory on its way to where it gains, though steps on that way lose.

The plan of a cycle is the best within what may move in it. A cliff beyond that is never reached by
such plans: giving memory up costs at once, and getting it gains nothing before all of it is there.
So memory that moves for what is gained in the end goes there straight, in steps of the same bound.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from cachepilot.control.memory_gain import is_a_step, is_forced
from cachepilot.control.memory_member import MemoryLook
from cachepilot.control.memory_trial import MemoryTrial
from cachepilot.control.tenant_state import TenantState
from cachepilot.domain.objectives.objective import Goal, size_bytes
from cachepilot.domain.planned import Action, Held, SloState
from cachepilot.sizes import pages_down


def planned(look: MemoryLook, states: Mapping[str, TenantState]) -> dict[str, Action]:
    """Limits that the plan of the cycle changes, of tenants whose limit may change now."""
    found: dict[str, Action] = {}
    if not look.may_begin:
        return found
    for action in look.plan.actions:
        if not is_a_step(action) or action.held is not Held.NOT or action.cgroup in look.busy:
            continue
        if look.time_s >= states[action.cgroup].limit_cool_until_s:
            found[action.cgroup] = action
    return found


def is_urgent(look: MemoryLook, moves: Mapping[str, Action], served: Collection[str]) -> bool:
    """Whether memory must move, and is on its way to a tenant whose SLO is not kept."""
    if not is_forced(look.collected, look.plan, look.objectives, moves):
        return False
    for one in look.plan.slos:
        action = moves.get(one.cgroup)
        if action is None or action.limit_bytes <= action.present.limit_bytes:
            continue
        if one.state is SloState.APPROACHING:
            return True
        # One that is served already has yet to fill what it got.
        if one.cgroup in look.standing.short and one.cgroup not in served:
            return True
    return False


def goes_straight(trial: MemoryTrial, look: MemoryLook) -> bool:
    """Whether memory moves for throughput, and not because it must."""
    return trial.ways is not None and look.objectives.goal is not Goal.LEAST_MEMORY


def _bounded(end: int, action: Action, look: MemoryLook) -> int:
    """Where a limit may go now of where it was to go: what was stated since comes first.

    Of whom anything is promised, no further than the plan of this cycle takes it.
    """
    seen, objective = look.collected.seen[action.cgroup], look.objectives.of(action.cgroup)
    budget = look.collected.snapshot.node.budget_bytes
    if objective.memory_max is not None:
        end = min(end, size_bytes(objective.memory_max, budget))
    low = seen.tenant.floor_bytes
    if objective.memory_min is not None:
        low = max(low, size_bytes(objective.memory_min, budget))
    return max(end, low, action.limit_bytes if objective.has_slo else 0)


def _ahead_bytes(
    trial: MemoryTrial, look: MemoryLook, states: Mapping[str, TenantState]
) -> dict[str, tuple[Action, int]]:
    """How far everyone whose limit may change is from where it goes, on the way that was begun."""
    found: dict[str, tuple[Action, int]] = {}
    if not look.may_begin:
        return found
    for action in look.plan.actions:
        cgroup = action.cgroup
        end = trial.ends.get(cgroup)
        if end is None or action.held is not Held.NOT or cgroup in look.busy:
            continue
        size = _bounded(end, action, look) - action.present.limit_bytes
        began = trial.ways is not None and trial.ways.get(cgroup) is (size > 0)
        if began and look.time_s >= states[cgroup].limit_cool_until_s:
            found[cgroup] = action, size
    return found


def towards(
    trial: MemoryTrial, look: MemoryLook, states: Mapping[str, TenantState]
) -> dict[str, Action]:
    """The next steps of those on their way, none longer than `look.step_bytes`.

    All get there together. Nobody is promised more than is free or given up by others, and nobody
    gives what nobody takes.
    """
    ahead = _ahead_bytes(trial, look, states)
    held = sum(seen.limit_bytes for seen in look.collected.seen.values())
    free = max(0, look.collected.snapshot.node.budget_bytes - held)
    given = sum(-size for _, size in ahead.values() if size < 0)
    asked = sum(size for _, size in ahead.values() if size > 0)
    got_share = min(1.0, (free + given) / asked) if asked else 0.0
    given_share = min(1.0, max(0, asked - free) / given) if given else 0.0
    parts = {
        cgroup: size * (got_share if size > 0 else given_share)
        for cgroup, (_, size) in ahead.items()
    }
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
