# SPDX-License-Identifier: Apache-2.0
"""The decider's step for the policies of all tenants of one node."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.state import Interval
from cachepilot.decide.step import step_all
from cachepilot.domain.decisions import Decision, Event, Reading, Setting
from cachepilot.domain.objectives.objective import Mode, Objective, Objectives
from cachepilot.domain.planned import Action, Held, Plan
from cachepilot.node.deciding.tenant_state import Recent, TenantState
from cachepilot.node.deciding.wish import NO_WISH, Wish
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sense.policy_costs import PolicyCosts


@dataclass(frozen=True)
class Cycle:
    """One cycle of a node. `refused` are policies that the node did not attach, and why.

    A tenant that is `moving`, whose memory is on trial, keeps its policy, so that measurements are
    of one change alone. After a gap, which no snapshot covers, nothing is learnt. Without
    `may_begin` no change begins. `costs` are the CPU costs of policies on this node.
    """

    collected: Collected
    plan: Plan
    objectives: Objectives
    elapsed_s: float
    refused: Mapping[str, str]
    orders: Mapping[str, Wish]
    moving: Collection[str] = ()
    is_gap: bool = False
    may_begin: bool = True
    costs: PolicyCosts = field(default_factory=PolicyCosts)

    @cached_property
    def page_us(self) -> float:
        """The time to read a page from the device, including the planned wait, microseconds."""
        return self.collected.snapshot.device.miss_cost_us + self.plan.device_wait_us


def _miss_time_share(seen: Seen, cycle: Cycle) -> float:
    """Device time of an operation if all its accesses missed, over the time that it takes now."""
    demand = seen.tenant.demand
    cost_us = demand.accesses_per_op * cycle.page_us
    time_us = demand.service_us + seen.tenant.indicators.miss_ratio * cost_us
    return cost_us / time_us if time_us > 0 else 0.0


def _interval(
    seen: Seen, state: TenantState, recent: Recent, objective: Objective, cycle: Cycle
) -> Interval:
    """Return a tenant's interval for `step_all`; no counterfactual if its limit changed in it.

    After such a change the page cache had the new size from the beginning of the interval, and the
    simulation only at its end. A tenant without a limit is simulated with the memory of the node,
    which never changes.
    """
    tenant = seen.tenant
    order = cycle.orders.get(tenant.cgroup, NO_WISH)
    has_moved = recent.limit_bytes not in (None, seen.wire.limit_bytes)
    recent.limit_bytes = seen.wire.limit_bytes
    pages = None if cycle.is_gap else seen.pages
    told = None if pages is None or has_moved else seen.counterfactual
    return Interval(
        time_s=cycle.collected.time_s,
        elapsed_s=cycle.elapsed_s,
        in_force=tenant.policy,
        limit_bytes=seen.limit_bytes,
        allowed=frozenset(objective.policies) or seen.usable,
        may_change=objective.mode is Mode.AUTO and order.policy is None,
        is_held=tenant.cgroup in cycle.moving,
        regime=seen.wire.phase,
        may_begin=cycle.may_begin,
        ops=tenant.indicators.throughput_ops,
        accesses=0 if pages is None else pages.accesses,
        misses=0 if pages is None else pages.misses,
        miss_time_share=_miss_time_share(seen, cycle),
        counterfactual=told,
        refused=cycle.refused.get(tenant.cgroup),
        cpu_us=None if told is None else cycle.costs.of(told.policies),
        page_us=cycle.page_us * state.reads_per_miss.of_default,
        weight=1.0 if pages is None else state.reads_per_miss.weight(tenant.policy),
        weight_of_others=state.reads_per_miss.weight_of_others,
        weight_error=state.reads_per_miss.weight_error(tenant.policy),
        is_measured=pages is not None,
        cgroup=tenant.cgroup,
    )


def decide(
    cycle: Cycle,
    states: Mapping[str, TenantState],
    recents: Mapping[str, Recent],
    config: DecideConfig,
) -> tuple[dict[str, Wish], list[Decision]]:
    """Return wishes, which attach policies, by cgroup, and the decisions of all tenants."""
    wishes = dict(cycle.orders)
    decisions: list[Decision] = []
    actions = {action.cgroup: action for action in cycle.plan.actions}
    all_seen = cycle.collected.seen
    asked = [cycle.objectives.of(cgroup) for cgroup in all_seen]
    intervals = [
        _interval(seen, states[cgroup], recents[cgroup], objective, cycle)
        for (cgroup, seen), objective in zip(all_seen.items(), asked, strict=True)
    ]
    decided = step_all([states[cgroup].policy for cgroup in all_seen], intervals, config)
    for (cgroup, seen), objective, found in zip(all_seen.items(), asked, decided, strict=True):
        state = states[cgroup].policy
        decisions += found
        for one in found:
            if one.event is Event.TRIAL and state.wanted is not None:
                states[cgroup].begin_change(cycle.collected.snapshot.epoch)
        earlier = wishes.get(cgroup, NO_WISH)
        action = actions.get(cgroup)
        if earlier.policy is None and _is_banned(objective, seen, action):
            assert action is not None
            state.trial = state.wanted = None
            decisions += _told(action, cycle, recents[cgroup])
            wishes[cgroup] = replace(earlier, policy=action.policy)
            continue
        recents[cgroup].ordered = ""
        if state.wanted is not None:
            wishes[cgroup] = replace(earlier, policy=state.wanted)
    return wishes, decisions


def _is_banned(objective: Objective, seen: Seen, action: Action | None) -> bool:
    """Whether the objectives do not allow the present policy and another one is planned."""
    named, now = objective.policies, seen.tenant.policy
    if not named or now in named or action is None or action.held is not Held.NOT:
        return False
    return action.policy != now


def _told(action: Action, cycle: Cycle, recent: Recent) -> list[Decision]:
    """A decision that a policy is replaced because it is not allowed; empty if already reported."""
    if recent.ordered == action.policy:
        return []
    recent.ordered = action.policy
    now = action.present
    return [
        Decision(
            time_s=cycle.collected.time_s,
            cgroup=action.cgroup,
            event=Event.KEPT,
            before=Setting(now.policy, now.limit_bytes),
            after=Setting(action.policy, now.limit_bytes),
            why=f"the objectives do not allow {now.policy}; not a trial",
            predicted=Reading(action.throughput_ops, action.miss_ratio),
        )
    ]
