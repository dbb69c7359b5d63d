# SPDX-License-Identifier: Apache-2.0
"""Evaluates runs in the virtual machine: throughput by side, gains, rows.

A side is one cgroup per stream, under the default, the autopilot or a pinned policy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from statistics import fmean
from typing import Any

import numpy as np
from experiments.autopilot.measured.record import LOAD_MAX
from experiments.autopilot.measured.series import Total, rate, total_at
from experiments.harvest.machine.running import AUTOPILOT, DEFAULT
from experiments.shared.rows import Row

PREFIX = "autopilot.harvest.vm"
GOALS = {"share": 0.80, "worst": 0.97}
WAITING_MIN = 0.6
"""Least share of the time that players wait for the disk, so that misses and not processors decide.
"""


def steady_ops(totals: Sequence[Total], from_s: float, to_s: float, requests: int) -> float:
    """Return requests per second between two times, over the last whole passes if there are any.

    A pass is `requests` long. Parts of a recording differ, and at a given time a faster side is at
    another part of it.
    """
    end = total_at(totals, to_s)
    passes = int((end - total_at(totals, from_s)) // requests)
    if passes:
        times, counts = zip(*totals, strict=True)
        from_s = float(np.interp(end - passes * requests, counts, times))
    return rate(totals, from_s, to_s)


@dataclass(frozen=True)
class Gain:
    """One stream in one run: steady requests per second by side, including pinned policies.

    `policies` are those that the autopilot put in force, in order.
    """

    stream: str
    ops: Mapping[str, float]
    policies: Sequence[str]

    @property
    def best(self) -> str:
        """The side of the best single policy; the kernel's own counts too."""
        return max((side for side in self.ops if side != AUTOPILOT), key=self.ops.__getitem__)

    @property
    def changes(self) -> int:
        """Number of changes of policy by the autopilot."""
        return len(self.policies) - 1

    def over_default(self, side: str) -> float:
        """Return the throughput of a side divided by that of the kernel's default."""
        return self.ops[side] / self.ops[DEFAULT]


@dataclass(frozen=True)
class Run:
    """A finished run. Times are the guest's, in seconds since 1970."""

    document: Mapping[str, Any]

    def _window(self, stream: str) -> tuple[float, float]:
        """Return the second half of the stream's round, which ends when the first side ends."""
        sides = self.document["played"][stream].values()
        end_s = min(side["ticks"][-1][0] for side in sides)
        return end_s - float(self.document["seconds"]) / 2, end_s

    def gains(self) -> Iterator[Gain]:
        """Yield the gain of every stream."""
        for stream, sides in self.document["played"].items():
            window, requests = self._window(stream), self.document["requests"][stream]
            ops = {}
            for name, side in sides.items():
                totals = [(at, done) for at, done, _ in side["ticks"]]
                ops[name] = steady_ops(totals, *window, requests)
            had = [look["policy"] for look in self.document["looks"].get(stream, [])]
            policies = had[:1] + [now for before, now in pairwise(had) if now != before]
            yield Gain(stream, ops, policies)

    @property
    def origin(self) -> dict[str, str]:
        """The commit and the machine of the run."""
        return {key: self.document[key] for key in ("commit", "machine")}

    @property
    def waiting(self) -> float:
        """Share of the steady seconds that players waited for the disk."""
        shares = []
        for stream, sides in self.document["played"].items():
            reads = [(at, done) for at, _, done in sides[DEFAULT]["ticks"]]
            iops = rate(reads, *self._window(stream))
            shares.append(iops * self.document["latency_us"] / 1e6 / self.document["players"])
        return fmean(shares)

    @property
    def load(self) -> float:
        """Mean of the host's load average over one minute."""
        return fmean(one[1] for one in self.document["load"])

    @property
    def is_starved(self) -> bool:
        """Whether the host was so busy that processors, not misses, decided the throughput."""
        return self.waiting < WAITING_MIN or self.load > LOAD_MAX


def _share(gains: Sequence[Gain]) -> float:
    """Return the autopilot's gains divided by those of the best policies; 1 if these are 0."""
    best = sum(log(one.over_default(one.best)) for one in gains)
    ours = sum(log(one.over_default(AUTOPILOT)) for one in gains)
    return ours / best if best > 0 else 1.0


def rows(runs: Sequence[Run]) -> list[Row]:
    """Return `autopilot.harvest.vm.*`, with one value per run."""
    by_run = [list(run.gains()) for run in runs]
    shares, worsts, changes = [], [], []
    for gains in by_run:
        shares.append(_share(gains))
        worsts.append(min(gains, key=lambda one: one.over_default(AUTOPILOT)))
        changes.append(fmean(one.changes for one in gains))
    ratios = [one.over_default(AUTOPILOT) for one in worsts]
    worst = worsts[int(np.argmin(ratios))]
    many = f"{len(by_run[0])} streams"
    return [
        Row.of_runs(
            f"{PREFIX}.share",
            shares,
            "ratio",
            better="higher",
            goal=GOALS["share"],
            reference=f"{many}; gain of the best policy of each, pinned from the start",
        ),
        Row(
            f"{PREFIX}.worst",
            min(ratios),
            "ratio",
            better="higher",
            goal=GOALS["worst"],
            reference=f"default, requests/s of what fares worst of all runs, {worst.stream}",
            reference_value=worst.ops[DEFAULT],
            runs=len(runs),
            spread=(min(ratios), max(ratios)),
        ),
        Row.of_runs(f"{PREFIX}.changes", changes, "changes", reference=many),
    ]
