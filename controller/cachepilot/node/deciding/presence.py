# SPDX-License-Identifier: Apache-2.0
"""Tenants that appear and disappear, and tenants that are missing from a few snapshots only.

An agent leaves out a tenant whose cgroup it could not read. A change must not lose its rollback
because of that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cachepilot.domain.decisions import Decision, Event, Setting
from cachepilot.node.deciding.first_memory import found_bytes
from cachepilot.node.deciding.tenant_state import TenantState
from cachepilot.sense.collect import Collected, Seen

PATIENCE_S = 30.0
"""Seconds for which the state of a missing tenant is kept."""


@dataclass
class Away:
    """The state of a tenant that is missing from snapshots, and the node's time since when it is.

    `kept_bytes` is the part of its memory that no other tenant has used since; None before the
    first cycle without it.
    """

    state: TenantState
    since_s: float
    kept_bytes: int | None = None


def beside_away(collected: Collected, away: Mapping[str, Away]) -> Collected:
    """Return the node with memory kept for missing tenants, so that no other tenant gets it.

    What is kept is what the limits of the others have left free ever since: no tenant gives up
    memory for one that is probably gone. Memory that other tenants free later is not kept.
    """
    if not away:
        return collected
    snapshot = collected.snapshot
    room, kept = collected.free_bytes, 0
    for one in away.values():
        most = one.state.held_bytes if one.kept_bytes is None else one.kept_bytes
        one.kept_bytes = min(most, room - kept)
        kept += one.kept_bytes
    node = replace(snapshot.node, away_bytes=kept)
    return replace(collected, snapshot=replace(snapshot, node=node))


def beside_reserved(collected: Collected, reserved: Mapping[str, int]) -> Collected:
    """Return the node with memory reserved for tenants that will come, bytes by cgroup.

    Nothing is reserved for a tenant that is present.
    """
    more = sum(size for cgroup, size in reserved.items() if cgroup not in collected.seen)
    if not more:
        return collected
    node = collected.snapshot.node
    away = min(node.away_bytes + more, node.budget_bytes)
    snapshot = replace(collected.snapshot, node=replace(node, away_bytes=away))
    return replace(collected, snapshot=snapshot)


def _ended(cgroup: str, state: TenantState, time_s: float) -> list[Decision]:
    trial = state.policy.trial
    if trial is None:
        return []
    before, after = (
        Setting(one, trial.limit_bytes) for one in (trial.from_policy, trial.to_policy)
    )
    return [Decision(time_s, cgroup, Event.ABANDONED, before, after, "the cgroup is gone")]


def follow(
    states: dict[str, TenantState],
    away: dict[str, Away],
    seen: Mapping[str, Seen],
    time_s: float,
) -> list[Decision]:
    """Make `states` those of the tenants that are `seen`; return decisions that end changes.

    A tenant that is missing moves to `away` and back. Its change ends when the cgroup is gone.
    """
    decisions: list[Decision] = []
    for cgroup, state in list(states.items()):
        found = seen.get(cgroup)
        if found is None:
            away[cgroup] = Away(state, time_s)
            del states[cgroup]
        elif found.wire.cgroup_id != state.cgroup_id:
            decisions += _ended(cgroup, state, time_s)
            del states[cgroup]
    for cgroup, one in list(away.items()):
        found = seen.get(cgroup)
        if found is not None and found.wire.cgroup_id == one.state.cgroup_id:
            states[cgroup] = one.state
        elif found is not None or time_s - one.since_s > PATIENCE_S:
            decisions += _ended(cgroup, one.state, time_s)
        else:
            continue
        del away[cgroup]
    for cgroup, found in seen.items():
        if cgroup not in states:
            states[cgroup] = TenantState(found.wire.cgroup_id)
            states[cgroup].held_first_bytes = found_bytes(found)
    return decisions
