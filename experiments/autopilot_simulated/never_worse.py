# SPDX-License-Identifier: Apache-2.0
"""Whether any tenant ends below what the kernel's default gives it with the same memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.autopilot_simulated.rig import Run, Setup, play
from experiments.autopilot_simulated.tenants import groups, node, traces
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row

from cachepilot.domain.objectives.objective import Mode, Objective, Objectives

AUTO = Objectives((Objective("*"),))
OBSERVED = Objectives((Objective("*", mode=Mode.OBSERVE),))
GOAL = 0.98
STEADY_FROM = 0.5
"""Of the run: what comes before is warm-up."""


@dataclass(frozen=True)
class Compared:
    """One tenant in its second half, and under the default with the limits that it had then.

    `limit_bytes` is their mean.
    """

    cgroup: str
    policy: str
    limit_bytes: int
    ops: float
    default_ops: float

    @property
    def ratio(self) -> float:
        """Above 1: it gained."""
        return self.ops / self.default_ops


def _mean_limit(run: Run, cgroup: str, from_s: float) -> int:
    """The mean limit of a tenant from then on, whole pages."""
    limits = [one.limit_bytes for one in run.looks[cgroup] if one.time_s >= from_s]
    return int(sum(limits) / len(limits)) // 4096 * 4096


def compare(setup: Setup) -> list[Compared]:
    """Every tenant of a node: under the autopilot, then under the default with what it had.

    Limits move at the same times in both: a mean limit would give more than they did on the way.
    """
    from_s, to_s = STEADY_FROM * setup.seconds, setup.seconds
    steered = play(setup, AUTO)
    default = play(setup, OBSERVED, limits_of=steered)
    return [
        Compared(
            one.cgroup,
            steered.looks[one.cgroup][-1].policy,
            _mean_limit(steered, one.cgroup, from_s),
            steered.throughput_ops(one.cgroup, from_s, to_s),
            default.throughput_ops(one.cgroup, from_s, to_s),
        )
        for one in setup.tenants
    ]


def measure(folder: Path | None, seconds: float, most: int | None = None) -> Sequence[Row]:
    """`autopilot.neverworse.min_ratio` over all tenants, and the median."""
    found: list[Compared] = []
    for group in groups(traces(folder)[:most]):
        for one in compare(node(group, seconds)):
            say(f"{one.cgroup}: {one.policy}, {one.limit_bytes >> 10} KiB: {one.ratio:.3f}")
            found.append(one)
    ratios = [one.ratio for one in found]
    worst = min(found, key=lambda one: one.ratio)
    middle = sorted(ratios)[len(ratios) // 2]
    return [
        Row(
            "autopilot.neverworse.min_ratio",
            worst.ratio,
            "ratio",
            better="higher",
            goal=GOAL,
            reference=f"default with the same memory, ops/s of the worst, {worst.cgroup}",
            reference_value=worst.default_ops,
            runs=len(found),
            spread=(min(ratios), max(ratios)),
        ),
        Row(
            "autopilot.neverworse.median_ratio",
            middle,
            "ratio",
            better="higher",
            reference="default with the same memory, simulated node",
            runs=len(found),
            spread=(min(ratios), max(ratios)),
        ),
    ]
