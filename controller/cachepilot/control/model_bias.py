# SPDX-License-Identifier: Apache-2.0
"""Promises of throughput, aimed as much higher as the model promises too much.

Where curves or the throughput model say more than is measured, a plan that just keeps a promise
by prediction breaks it. The planner is asked for the target times predicted over measured, both at
the present setting; what is promised to the operator, shown and counted, stays the target.
"""

from dataclasses import replace

from cachepilot.control.collect import Collected, Seen
from cachepilot.control.predict import predicted
from cachepilot.planner.objectives import Objectives

BIAS_MAX = 1.5
"""A model that is further off is for the trust check, not for this."""
GAIN = 0.2
"""Of a new ratio, per interval: a window's noise must not move memory."""
LEAST = 1.01
HEADROOM = 1.05
"""Higher still where the model is wrong: a promise is for nearly all windows, not the mean."""


class ModelBias:
    """By what factor the model promises too much, per tenant of one node; not kept on restart."""

    def __init__(self) -> None:
        self._bias: dict[str, float] = {}

    def aimed(self, collected: Collected, objectives: Objectives, wait_us: float) -> Objectives:
        """Objectives for the planner, after another look at what is measured."""
        stated = (*objectives.pinned, *objectives.tenants)
        if all(one.throughput_ops is None for one in stated):
            return objectives
        found = []
        self._bias = {name: one for name, one in self._bias.items() if name in collected.seen}
        for cgroup, seen in collected.seen.items():
            objective = objectives.of(cgroup)
            if objective.throughput_ops is None:
                continue
            bias = self._learn(cgroup, seen, collected, wait_us)
            if bias >= LEAST:
                target = objective.throughput_ops * bias * HEADROOM
                found.append(replace(objective, pattern=cgroup, throughput_ops=target))
        return replace(objectives, pinned=(*found, *objectives.pinned)) if found else objectives

    def _learn(self, cgroup: str, seen: Seen, collected: Collected, wait_us: float) -> float:
        before = self._bias.get(cgroup, 1.0)
        device, tenant = collected.snapshot.device, seen.tenant
        now = predicted(seen, device, wait_us, tenant.policy, seen.limit_bytes)
        measured = tenant.indicators.throughput_ops
        if now is None or now.ops is None or seen.window is None or measured <= 0:
            return before
        # What cannot be trusted teaches nothing: a change of phase is no error of the model.
        if not tenant.trust.trusted:
            return before
        ratio = min(max(now.ops / measured, 1.0), BIAS_MAX)
        self._bias[cgroup] = before + GAIN * (ratio - before)
        return self._bias[cgroup]
