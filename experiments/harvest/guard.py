# SPDX-License-Identifier: Apache-2.0
"""Measures the guard, an earlier decider, played from a checkout of its commit beside this one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.harvest import pinned
from experiments.harvest.compare import DEVICE_IOPS, DEVICE_PARALLELISM, PAGE_BYTES
from experiments.harvest.loads import Load, loads
from experiments.harvest.pinned import KERNEL_DEFAULT, Misses, attachable
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row
from experiments.shared.side_by_side import side_by_side

from cachepilot import agent

NAMED_HERE = (agent.BINARY_VARIABLE, agent.POLICIES_VARIABLE)
PLAYER = Path(__file__).resolve().parent / "guard_player.py"


class GuardError(Exception):
    """The checkout did not play a load. The message has the last line of its errors."""


@dataclass(frozen=True)
class Guarded:
    """One load: operations per second in the second half of its run, under each alternative."""

    name: str
    seed: int
    default_ops: float
    best_ops: float
    guard_ops: float

    @property
    def ratio(self) -> float:
        """The guard's throughput divided by the default's."""
        return self.guard_ops / self.default_ops


def asked(load: Load, trace: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Return the argument for guard_player.py: the node that `compare` plays."""
    return {
        "trace": str(trace),
        "limit_bytes": load.size_pages * PAGE_BYTES,
        "concurrency": pinned.CONCURRENCY,
        "service_us": pinned.SERVICE_US,
        "read_us": pinned.READ_US,
        "parallelism": DEVICE_PARALLELISM,
        "iops": DEVICE_IOPS,
        "seconds": seconds,
        "seed": seed,
    }


def played(checkout: Path, told: dict[str, Any]) -> dict[str, float]:
    """Return operations per second and changes.

    Raises GuardError when the checkout did not play the load.
    """
    # The checkout uses its own agent and policies, not those that the environment may name for this
    # one.
    kept = {name: value for name, value in os.environ.items() if name not in NAMED_HERE}
    path = os.pathsep.join((str(checkout / "controller"), str(checkout)))
    done = subprocess.run(
        [sys.executable, str(PLAYER), json.dumps(told)],
        cwd=checkout,
        env=kept | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        why = done.stderr.strip().splitlines()[-1:]
        raise GuardError(f"{checkout}: {told['trace']}: {''.join(why)}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(checkout: Path, load: Load, seconds: float, seed: int) -> Guarded:
    """Play a load under the guard, and simulate what it is compared with."""
    with TemporaryDirectory(prefix="cachepilot-guard-") as folder:
        trace = Path(folder) / "load.u64"
        load.write(trace)
        guard = played(checkout, asked(load, trace, seconds, seed))
    ops = {name: pinned.throughput_ops(Misses.of(load, name).get, seconds) for name in attachable()}
    return Guarded(load.name, seed, ops[KERNEL_DEFAULT], max(ops.values()), guard["ops"])


def _compared(
    checkout: Path, chosen: Sequence[Load], seconds: float, seed: int
) -> Iterator[Guarded]:
    for one in side_by_side(partial(compare, checkout, seconds=seconds, seed=seed), chosen):
        say(f"guard, {one.name}, seed {seed}: {one.ratio:.3f} of the default")
        yield one


def share(found: Sequence[Guarded]) -> float:
    """Return the tenants' total gain over the default, divided by that of their best policies."""
    gained = sum(log(one.ratio) for one in found)
    return gained / sum(log(one.best_ops / one.default_ops) for one in found)


def rows(share_pct: int, by_seed: Sequence[Sequence[Guarded]]) -> list[Row]:
    """Return `autopilot.harvest.guard{,_worst}` of one share of memory, with one value per seed."""
    worst = min((one for found in by_seed for one in found), key=lambda one: one.ratio)
    worsts = [min(one.ratio for one in found) for found in by_seed]
    return [
        Row.of_runs(
            f"autopilot.harvest.guard.{share_pct}",
            [share(found) for found in by_seed],
            "ratio",
            better="higher",
            reference=f"{len(by_seed[0])} tenants; gain of the best policy of each, pinned from "
            "the start",
        ),
        Row(
            f"autopilot.harvest.guard_worst.{share_pct}",
            worst.ratio,
            "ratio",
            better="higher",
            reference=f"default, ops/s of the tenant that fares worst of all runs, {worst.name}",
            reference_value=worst.default_ops,
            runs=len(worsts),
            spread=(min(worsts), max(worsts)),
        ),
    ]


def measure(
    checkout: Path, found: Sequence[Path], share_pct: int, seconds: float, seeds: int
) -> list[Row]:
    """Run every load whose page cache at this share of memory is large enough, with every seed."""
    return rows(
        share_pct,
        [
            list(_compared(checkout, loads(found, share_pct / 100, seed), seconds, seed))
            for seed in range(1, seeds + 1)
        ],
    )
