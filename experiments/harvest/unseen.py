# SPDX-License-Identifier: Apache-2.0
"""The autopilot on workloads that a seed draws, none of which was used to tune its rules.

Their statistics change over time, and a faster side meets a change earlier. Therefore sides are
compared by the time that they take for the same requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log

import numpy as np
from experiments.harvest import pinned
from experiments.harvest.compare import CGROUP, changes, steered
from experiments.harvest.kinds import workloads
from experiments.harvest.loads import PAGES_MIN, Load
from experiments.harvest.pinned import KERNEL_DEFAULT, Misses, attachable
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row
from experiments.shared.side_by_side import side_by_side

GOALS = {"share": 0.90, "worst": 0.99}


@dataclass(frozen=True)
class Compared:
    """One load: throughputs over that of the default, on the same requests.

    `ratio` is the autopilot's, and `best` that of the best policy.
    """

    name: str
    seed: int
    best_policy: str
    best: float
    ratio: float
    changes: int


def loads(seed: int, memory_share: float) -> list[Load]:
    """Return the workloads that get this share of their pages as page cache.

    Those for which it is smaller than `PAGES_MIN` are left out.
    """
    found = []
    for one in workloads(seed):
        size_pages = int(memory_share * one.size_pages)
        if size_pages >= PAGES_MIN:
            found.append(replace(one, size_pages=size_pages))
    return found


def compare(load: Load, seconds: float, seed: int) -> Compared:
    """Compare by the requests that the default serves in the second half.

    Requests that the autopilot does not serve in time are left out.
    """
    looks = steered(load, seconds, seed).looks[CGROUP]
    times, ops = np.array([(one.time_s, one.ops_total) for one in looks], dtype=float).T
    misses = {name: Misses.of(load, name) for name in attachable()}
    default = misses[KERNEL_DEFAULT]
    last = min(pinned.served(default.get, seconds / load.pace), int(ops[-1]))
    first = min(pinned.served(default.get, seconds / load.pace / 2), last // 2)
    time_s = {name: load.pace * pinned.time_s(one.get, first, last) for name, one in misses.items()}
    ours_s = float(np.interp(last, ops, times) - np.interp(first, ops, times))
    best = min(time_s, key=lambda name: time_s[name])
    return Compared(
        name=load.name,
        seed=seed,
        best_policy=best,
        best=time_s[KERNEL_DEFAULT] / time_s[best],
        ratio=time_s[KERNEL_DEFAULT] / ours_s,
        changes=changes(looks),
    )


def rows(share_pct: int, by_seed: Sequence[Sequence[Compared]]) -> list[Row]:
    """Return `autopilot.harvest.unseen.*` of one share of memory, with one value per seed."""
    worst = min((one for found in by_seed for one in found), key=lambda one: one.ratio)
    worsts = [min(one.ratio for one in found) for found in by_seed]
    about = f"{min(map(len, by_seed))} workloads or more per seed"
    of_runs = {
        "share": [
            sum(log(one.ratio) for one in found) / sum(log(one.best) for one in found)
            for found in by_seed
        ],
        "best": [float(np.exp(np.mean([log(one.best) for one in found]))) for found in by_seed],
    }
    changes = [sum(one.changes for one in found) / len(found) for found in by_seed]
    found = [
        Row.of_runs(
            f"autopilot.harvest.unseen.{name}.{share_pct}",
            values,
            "ratio",
            better="higher",
            goal=GOALS.get(name),
            reference=f"{about}; {'default' if name == 'best' else 'gain of the best policy'}",
        )
        for name, values in of_runs.items()
    ]
    found.append(
        Row(
            f"autopilot.harvest.unseen.worst.{share_pct}",
            worst.ratio,
            "ratio",
            better="higher",
            goal=GOALS["worst"],
            reference=f"default, what fares worst of all runs: {worst.name}, seed {worst.seed}",
            runs=len(worsts),
            spread=(min(worsts), max(worsts)),
        )
    )
    metric = f"autopilot.harvest.unseen.changes.{share_pct}"
    return [*found, Row.of_runs(metric, changes, "changes", reference=about)]


def measure(share_pct: int, seconds: float, seeds: Sequence[int]) -> list[Row]:
    """Run the workloads of every seed whose page cache at this share of memory is large enough."""
    by_seed = []
    for seed in seeds:
        outcomes = []
        job = partial(compare, seconds=seconds, seed=seed)
        for one in side_by_side(job, loads(seed, share_pct / 100)):
            say(
                f"{share_pct}%, {one.name}, seed {seed}: {one.ratio:.3f} of the default "
                f"({one.best_policy}: {one.best:.3f}), {one.changes} changes"
            )
            outcomes.append(one)
        by_seed.append(outcomes)
    return rows(share_pct, by_seed)
