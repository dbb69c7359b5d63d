# SPDX-License-Identifier: Apache-2.0
"""Recommendations for the tenants of one node, and when a new one replaces them.

Each cycle plans for the *shadow*: the node as it would be with the recommendations in force. What
that plan would change is the *rival*. The law in `cachepilot.decide.advice.law` compares the rival
with the recommendations over many intervals and decides when it replaces them.
"""

from dataclasses import dataclass, replace

from cachepilot.decide.advice.law import AdviceState, Verdict, judge
from cachepilot.decide.config import DecideConfig
from cachepilot.decide.costs import cost_share
from cachepilot.decide.memory.interval import MemoryInterval
from cachepilot.domain.decisions import Decision, Event, Reading, Setting
from cachepilot.domain.objectives.objective import Mode, Objectives
from cachepilot.domain.planned import Action, Plan
from cachepilot.domain.planned import Setting as Predicted
from cachepilot.domain.units import US_PER_S
from cachepilot.model.foreseen import Known
from cachepilot.model.measured_intervals import MeasuredIntervals
from cachepilot.model.throughput import tenant_throughput
from cachepilot.node.deciding.config import NodeConfig
from cachepilot.node.deciding.decider import Decider
from cachepilot.node.deciding.memory import interval
from cachepilot.node.deciding.tenant_state import Advised
from cachepilot.node.deciding.worth import MemoryCycle, Worth
from cachepilot.node.plan_step import Planned, plan_step
from cachepilot.node.shadow import in_auto, shadowed
from cachepilot.node.shown.advice import Advice, miss_at
from cachepilot.node.shown.readings import done_ops
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sizes import PAGE_BYTES, human_bytes


@dataclass(frozen=True)
class _Look:
    """The input of one cycle: the node with recommendations in force, and the plan for it."""

    shadow: Collected
    planned: Planned
    step_bytes: int


class Advisor:
    """The recommendations for one node."""

    def __init__(self, config: NodeConfig, decider: Decider) -> None:
        self._config, self._decider = config, decider
        self.advice: Advice | None = None
        self._intervals: dict[str, MeasuredIntervals] = {}

    def step(
        self, collected: Collected, objectives: Objectives, step_bytes: int, can_limit: bool
    ) -> list[Decision]:
        """Take in a cycle; return a decision for each recommendation that changed."""
        state, states = self._decider.state, self._decider.state.tenants
        told = {cgroup for cgroup in collected.seen if objectives.of(cgroup).is_advised}
        if not told:
            self.advice, state.advice, self._intervals = None, AdviceState(), {}
            for one in states.values():
                one.advised = None
            return []
        for cgroup in collected.seen:
            objective = objectives.of(cgroup)
            # A tenant that gets no recommendations any more has its own settings in the shadow.
            if objective.mode is Mode.OBSERVE or objective.fixed is not None:
                states[cgroup].advised = None
        share, margin = self._config.least_share, self._config.decide.least_gain
        asked = in_auto(objectives, collected, margin)
        shadow = shadowed(collected, asked, states, told, share)
        look = _Look(shadow, plan_step(shadow, asked, self._config, can_limit), step_bytes)
        decisions: list[Decision] = []
        if not look.planned.problem and not self._decider.is_gap:
            changed = self._decide(look)
            for action in changed:
                before = self._adopt(action, collected.time_s)
                if action.cgroup in told:
                    decisions.append(_decision(collected, action, before))
            shadow = shadowed(collected, asked, states, told, share) if changed else shadow
        advised = {
            cgroup: one.advised
            for cgroup, one in states.items()
            if cgroup in told and one.advised is not None
        }
        model = look.planned.config.model
        known = self._known(collected)
        self.advice = Advice(
            shadow, look.planned.plan, objectives, advised, model, known, collected.seen
        )
        return decisions

    def _known(self, collected: Collected) -> dict[str, Known]:
        """Take in the interval of each tenant; return what is measured of it.

        Tenants in mode `auto` count, too: the device's wait depends on what they miss.
        """
        known, interval_s = self._intervals, self._decider.state.clock.interval_s or 0.0
        self._intervals = {name: known.get(name) or MeasuredIntervals() for name in collected.seen}
        found = {}
        for name, intervals in self._intervals.items():
            seen = collected.seen[name]
            tenant, counts = seen.tenant, not (seen.is_filling or self._decider.is_gap)
            done = done_ops(seen) if counts else None
            # Without a limit, `tenant.limit_bytes` is the memory in use, which always changes.
            setting = tenant.policy, seen.wire.limit_bytes
            intervals.take(setting, done, collected.time_s, interval_s)
            limits = self._decider.state.tenants[name].limits
            error = limits.error_at(tenant.limit_bytes, tenant.demand)
            found[name] = Known(intervals.scattered, error)
        return found

    def _adopt(self, action: Action, time_s: float) -> Advised | None:
        """Make an action the recommendation for its tenant; return the one that it replaces."""
        one = self._decider.state.tenants[action.cgroup]
        before, one.advised = one.advised, Advised(action.policy, action.limit_bytes, time_s)
        return before

    def _decide(self, look: _Look) -> list[Action]:
        """Return the actions that become recommendations now, in place of earlier ones.

        A change that the objectives or an SLO force is adopted at once. Any other must win as the
        rival.
        """
        state, plan = self._decider.state.advice, look.planned.plan
        seen = self._interval(look, plan)
        if _is_banned(look) or (seen.is_forced and seen.movers):
            state.forget()
            return [one for one in plan.actions if one.cgroup in seen.movers]
        if state.rival and not (state.is_of(seen) and state.rival.keys() <= seen.tenants.keys()):
            state.forget()
        if not state.rival:
            rival = {one.cgroup: (one.policy, one.limit_bytes) for one in plan.actions}
            state.challenge({name: rival[name] for name in seen.movers}, seen)
        against = _against(look, state.rival)
        verdict = judge(state, self._interval(look, against), self._config.decide)
        found = [one for one in against.actions if one.cgroup in state.rival]
        if verdict is not Verdict.WAITS:
            state.forget()
        return found if verdict is Verdict.REPLACES else []

    def _interval(self, look: _Look, plan: Plan) -> MemoryInterval:
        """Return the input of the law: recommendations in place of settings, and a plan."""
        objectives, decider = look.planned.objectives, self._decider
        cycle = MemoryCycle(
            collected=look.shadow,
            plan=plan,
            objectives=objectives,
            model=look.planned.config.model,
            states=decider.state.tenants,
            shifts=decider.shifts,
            elapsed_s=decider.elapsed_s,
            step_bytes=look.step_bytes,
            short=(),
            busy=(),
            ordered={name for name in look.shadow.seen if objectives.of(name).fixed is not None},
            away=frozenset(decider.state.away),
            may_begin=True,
            is_gap=False,
            restored=look.planned.restored,
            yielded=decider.left_alone,
        )
        found = interval(cycle, self._config.decide)
        tenants = dict(found.tenants)
        for action in plan.actions:
            if action.policy == action.present.policy:
                continue
            seen = look.shadow.seen[action.cgroup]
            worth = Worth(cycle, seen, objectives.of(action.cgroup).weight)
            reread_s = _reread_s(action, seen, look, self._config.decide)
            tenants[action.cgroup] = found.tenants[action.cgroup].swapped(
                worth.swap_error(action), reread_s
            )
        return replace(found, tenants=tenants)


def _is_banned(look: _Look) -> bool:
    """Whether another policy is planned for a tenant whose recommended one is not allowed."""
    of = look.planned.objectives.of
    swapped = (one for one in look.planned.plan.actions if one.policy != one.present.policy)
    return any(
        bool(of(one.cgroup).policies) and one.present.policy not in of(one.cgroup).policies
        for one in swapped
    )


def _against(look: _Look, rival: dict[str, tuple[str, int]]) -> Plan:
    """The plan with the settings of `rival`, and with the recommended ones for all other tenants.

    Both are predicted by the present curves. A device read waits as long as in the plan. Without a
    curve for both policies, a tenant's setting and prediction stay as they are.
    """
    plan, device = look.planned.plan, look.shadow.snapshot.device
    actions = []
    for action in plan.actions:
        now = action.present
        policy, limit = rival.get(action.cgroup, (now.policy, now.limit_bytes))
        tenant = look.shadow.seen[action.cgroup].tenant
        curves = tenant.certain or tenant.curves
        if curves is not None and {policy, now.policy} <= {*curves.policies}:
            misses = (
                miss_at(curves, now.policy, now.limit_bytes),
                miss_at(curves, policy, limit),
            )
        else:
            policy, limit, misses = now.policy, now.limit_bytes, (now.miss_ratio, now.miss_ratio)
        model = tenant_throughput(tenant, device, look.planned.config.model)
        ops = [model.ops(plan.device_wait_us, one) for one in misses]
        here = Predicted(now.policy, now.limit_bytes, misses[0], ops[0])
        actions.append(
            replace(
                action, policy=policy, limit_bytes=limit, miss_ratio=misses[1],
                throughput_ops=ops[1], present=here, kept_now_ops=action.kept_ops,
            )
        )  # fmt: skip
    return replace(plan, actions=tuple(actions))


def _reread_s(action: Action, seen: Seen, look: _Look, config: DecideConfig) -> float:
    """Seconds to read again the pages that another policy or a smaller limit does not keep."""
    less = max(0, action.present.limit_bytes - action.limit_bytes)
    share = cost_share(action.present.policy, action.policy, config)
    pages = max(less, share * action.limit_bytes) / PAGE_BYTES
    cost_us = look.shadow.snapshot.device.miss_cost_us + look.planned.plan.device_wait_us
    return pages * cost_us / US_PER_S / seen.tenant.demand.concurrency


def _decision(collected: Collected, action: Action, before: Advised | None) -> Decision:
    tenant = collected.seen[action.cgroup].tenant
    why = "the gain exceeds its error and the cost of changing; nothing is changed"
    if before is not None:
        why = f"in place of {before.policy} with {human_bytes(before.limit_bytes)}: {why}"
    return Decision(
        time_s=collected.time_s,
        cgroup=action.cgroup,
        event=Event.RECOMMENDED,
        before=Setting(tenant.policy, tenant.limit_bytes),
        after=Setting(action.policy, action.limit_bytes),
        why=why,
        baseline=Reading(tenant.indicators.throughput_ops, tenant.indicators.miss_ratio),
        predicted=Reading(action.throughput_ops, action.miss_ratio),
    )
