# SPDX-License-Identifier: Apache-2.0
"""Promises of throughput, aimed higher: by what the model promises too much, and above the noise.

Where curves or the throughput model say more than is measured, a plan that just keeps a promise
by prediction breaks it. The planner is asked for the target times predicted over measured, both at
the present setting. A promise is for nearly all windows: a mean at the target would break it in
every other one, so it is aimed above it by what windows scatter. What is promised to the operator,
shown and counted, stays the target.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from cachepilot.control.predict import predicted
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sense.counters import WINDOW

BIAS_MAX = 1.5
"""A model that is further off is for the trust check, not for this."""
GAIN = 0.2
"""Of a new ratio, per interval: a window's noise must not move memory."""
LEAST = 1.01
HEADROOM = 1.05
"""Higher still where the model is wrong."""
WINDOWS = 40
"""Of which the scatter is measured, and how many of them there must be at least."""
WINDOWS_MIN = 8
SIGMAS = 2.3
"""By so many standard deviations the mean is to be above the target: 99% of windows keep it."""
STEP = 0.02
"""Above that: limits are not moved by less than a small step, which may be worth so much."""
SCATTER_MAX = 0.15
"""Relative to the mean: who scatters more gets no more for it."""


def scatter(ops: Sequence[float]) -> float:
    """The standard deviation of windows over their mean; 0 while there are too few.

    Of a window it counts how far it is off the middle of its neighbours: a mean that rises or falls
    steadily, or that jumps once, is no noise.
    """
    if len(ops) < WINDOWS_MIN:
        return 0.0
    off = sorted(abs(b - (a + c) / 2) for a, b, c in zip(ops, ops[1:], ops[2:], strict=False))
    # Of normal variables the median of this is 0.6745 times the square root of 1.5.
    deviation = off[len(off) // 2] / 0.826
    return min(deviation / max(fmean(ops), 1e-9), SCATTER_MAX)


@dataclass
class _Windows:
    """Throughput of windows of one tenant under one policy and limit, and how far they scatter."""

    setting: tuple[str, int]
    scatter: float
    ops: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOWS))

    @property
    def above(self) -> float:
        """How far above a promise the mean is to be."""
        return 1 + STEP + SIGMAS * self.scatter if self.scatter > 0 else 1.0


class ModelBias:
    """By what factor the model promises too much, per tenant of one node; not kept on restart."""

    def __init__(self) -> None:
        self._bias: dict[str, float] = {}
        self._accuracy: dict[str, float] = {}
        self._windows: dict[str, _Windows] = {}

    def aimed(self, collected: Collected, objectives: Objectives, wait_us: float) -> Objectives:
        """Objectives for the planner, after another look at what is measured."""
        stated = (*objectives.pinned, *objectives.tenants)
        if all(one.throughput_ops is None for one in stated):
            return objectives
        self._bias = {name: one for name, one in self._bias.items() if name in collected.seen}
        self._accuracy = {n: one for n, one in self._accuracy.items() if n in collected.seen}
        self._windows = {n: one for n, one in self._windows.items() if n in collected.seen}
        for cgroup, seen in collected.seen.items():
            objective = objectives.of(cgroup)
            if objective.throughput_ops is None:
                continue
            windows = self._watched(cgroup, seen)
            self._learn(cgroup, seen, collected, wait_us, len(windows.ops))
        return self.raised(collected, objectives)

    def raised(self, collected: Collected, objectives: Objectives) -> Objectives:
        """The same without another look."""
        found = []
        for cgroup in collected.seen:
            objective, windows = objectives.of(cgroup), self._windows.get(cgroup)
            if objective.throughput_ops is None or windows is None:
                continue
            bias = self._bias.get(cgroup, 1.0)
            higher = bias * HEADROOM if bias >= LEAST else 1.0
            higher *= windows.above
            if higher > 1:
                target = objective.throughput_ops * higher
                found.append(replace(objective, pattern=cgroup, throughput_ops=target))
        return replace(objectives, pinned=(*found, *objectives.pinned)) if found else objectives

    def goals_ops(self, collected: Collected, objectives: Objectives) -> dict[str, float]:
        """Mean throughput at which nearly all windows keep a promise, as they scattered so far."""
        found = {}
        for cgroup in collected.seen:
            target = objectives.of(cgroup).throughput_ops
            if target is not None:
                windows = self._windows.get(cgroup)
                found[cgroup] = target * (1.0 if windows is None else windows.above)
        return found

    def accuracy(self) -> dict[str, float]:
        """Measured over predicted throughput, of those of whom it was learnt."""
        return dict(self._accuracy)

    def _watched(self, cgroup: str, seen: Seen) -> _Windows:
        """As last seen while nothing was changed: on the way to another limit the mean moves."""
        setting = (seen.tenant.policy, seen.limit_bytes)
        found = self._windows.get(cgroup)
        if found is None or found.setting != setting:
            found = _Windows(setting, 0.0 if found is None else found.scatter)
            self._windows[cgroup] = found
        if seen.sample is not None:
            found.ops.append(seen.sample.ops)
        if len(found.ops) >= WINDOWS_MIN:
            found.scatter = scatter(tuple(found.ops))
        return found

    def _learn(
        self, cgroup: str, seen: Seen, collected: Collected, wait_us: float, settled: int
    ) -> None:
        before = self._bias.get(cgroup, 1.0)
        # What is measured is smoothed: soon after a change it is of what was before.
        if settled <= WINDOW:
            return
        device, tenant = collected.snapshot.device, seen.tenant
        now = predicted(seen, device, wait_us, tenant.policy, seen.limit_bytes)
        measured = tenant.indicators.throughput_ops
        if now is None or now.ops is None or seen.window is None or measured <= 0:
            return
        # What cannot be trusted teaches nothing: a change of phase is no error of the model.
        if not tenant.trust.trusted:
            return
        right = self._accuracy.get(cgroup, 1.0)
        found = min(max(measured / now.ops, 1 / BIAS_MAX), BIAS_MAX)
        self._accuracy[cgroup] = right + GAIN * (found - right)
        ratio = min(max(now.ops / measured, 1.0), BIAS_MAX)
        self._bias[cgroup] = before + GAIN * (ratio - before)
