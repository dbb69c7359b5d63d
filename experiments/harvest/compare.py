# SPDX-License-Identifier: Apache-2.0
"""Runs one load under the autopilot, and computes the throughputs it is compared with."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.autopilot_simulated.rig import Look, Run, Setup, Tenant, play
from experiments.harvest import pinned
from experiments.harvest.loads import Load
from experiments.harvest.pinned import KERNEL_DEFAULT, Misses, attachable, may_choose

from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.sizes import parse_size

PAGE_BYTES = 4096
CGROUP = "/tenant"
DEVICE_PARALLELISM = 4096
DEVICE_IOPS = 10_000_000
"""High enough that the device is never short."""


@dataclass(frozen=True)
class Outcome:
    """One load: operations per second in the second half of its run, under each alternative.

    `changes` counts the changes of policy that the autopilot made in the whole run.
    """

    name: str
    seed: int
    best_policy: str
    default_ops: float
    best_ops: float
    sequence_ops: float
    naive_ops: float
    autopilot_ops: float
    changes: int

    def gain(self, kind: str) -> float:
        """Return the gain of `kind` over the default, as a logarithm.

        `kind` is `best`, `sequence`, `naive` or `autopilot`.
        """
        return log(float(getattr(self, f"{kind}_ops")) / self.default_ops)


def steered(load: Load, seconds: float, seed: int) -> Run:
    """Play a load under the autopilot with fixed memory."""
    limit_bytes = load.size_pages * PAGE_BYTES
    limit = parse_size(f"{load.size_pages}")
    with TemporaryDirectory(prefix="cachepilot-harvest-") as folder:
        trace = Path(folder) / "load.u64"
        load.write(trace)
        tenant = Tenant(
            CGROUP,
            limit_bytes,
            [{"source": {"kind": "trace", "path": str(trace)}}],
            concurrency=pinned.CONCURRENCY,
            service_us=load.pace * pinned.SERVICE_US,
        )
        setup = Setup(
            [tenant],
            limit_bytes,
            seconds,
            load.pace * pinned.READ_US,
            DEVICE_PARALLELISM,
            DEVICE_IOPS,
            seed=seed,
        )
        stays = Objective("*", memory_min=limit, memory_max=limit)
        return play(setup, Objectives((stays,)))


def changes(looks: Sequence[Look]) -> int:
    """Return how often the policy in force changed."""
    return sum(now.policy != before.policy for before, now in pairwise(looks))


def compare(load: Load, seconds: float, seed: int) -> Outcome:
    """Play a load under the autopilot with fixed memory, and simulate the alternatives."""
    run = steered(load, seconds, seed)
    misses = {name: Misses.of(load, name) for name in attachable()}
    ops = {name: pinned.throughput_ops(one.get, seconds) for name, one in misses.items()}
    best = max(ops, key=lambda name: ops[name])
    candidates = {name: misses[name] for name in (KERNEL_DEFAULT, *may_choose())}
    return Outcome(
        name=load.name,
        seed=seed,
        best_policy=best,
        default_ops=ops[KERNEL_DEFAULT],
        best_ops=ops[best],
        sequence_ops=pinned.throughput_ops(pinned.best_sequence(misses), seconds),
        naive_ops=pinned.throughput_ops(pinned.naive(candidates, KERNEL_DEFAULT), seconds),
        autopilot_ops=run.throughput_ops(CGROUP, seconds / 2, seconds),
        changes=changes(run.looks[CGROUP]),
    )
