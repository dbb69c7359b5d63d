# SPDX-License-Identifier: Apache-2.0
"""How soon tenants whose workload changes get memory again, and reach their target throughput.

Three tenants need little memory at first and much more from one moment on. The rows count whole
intervals of one second. Memory for the new working set is counted from the first interval at whose
end the page cache has filled its limit: before that, misses are first accesses, which no memory
avoids. Throughput is counted from the moment of the change until it is 95% of that with the first
memory. The page cache is read meanwhile.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile

from experiments.autopilot_simulated.rig import Look, Run, Setup, Tenant, play, windows
from experiments.consolidation.one import SENPAI_TIMES
from experiments.consolidation.senpai import Senpai
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row
from experiments.shared.side_by_side import side_by_side

from cachepilot.domain.objectives.objective import Goal, Mode, Objective, Objectives
from cachepilot.sense.counterfactuals import DEFAULT

LIMIT_BYTES = 64 << 20
SLO_OPS = 2_700.0
SHARE = 0.95
AFTER_S = 60.0
NEEDED_BYTES = {"/slo": 32 << 20, "/loop": 48 << 20, "/other": 32 << 20}
ENOUGH_OPS = {"/slo": SLO_OPS, "/loop": SHARE * 5_000, "/other": SHARE * 5_000}
"""An operation that always hits takes 200 us, which gives 5,000 operations per second."""
GOAL_INTERVALS = 1.0
FULL_SHARE = 0.95
"""Share of its limit that a full page cache fills: reclaim takes more than is requested."""
MODES = ("static", "policies", "limits", "senpai")


@dataclass(frozen=True)
class Job:
    """One run."""

    seed: int
    mode: str
    step_s: float


def node(job: Job) -> Setup:
    """Return a node of three tenants with one thread each.

    One has an SLO and reads with a skew, the others loop over their pages.
    """
    skewed = {"kind": "zipf", "pages": 40_000}
    changes = {
        "/slo": ({**skewed, "alpha": 1.1}, {**skewed, "alpha": 0.8}),
        "/loop": ({"kind": "loop", "pages": 4_000}, {"kind": "loop", "pages": 12_000}),
        "/other": ({"kind": "loop", "pages": 2_000}, {"kind": "loop", "pages": 8_000}),
    }
    tenants = [
        Tenant(name, LIMIT_BYTES, [{"seconds": job.step_s, "source": one}, {"source": other}], 1)
        for name, (one, other) in changes.items()
    ]
    return Setup(tenants, LIMIT_BYTES * len(tenants), job.step_s + AFTER_S, seed=job.seed)


def objectives(mode: str) -> Objectives:
    """Return the objectives: an SLO for one tenant, and 95% of their throughput for the others."""
    if mode in ("static", "senpai"):
        return Objectives((Objective("*", mode=Mode.OBSERVE),))
    policies = (DEFAULT,) if mode == "limits" else ()
    slo = Objective("/slo", throughput_ops=SLO_OPS, policies=policies)
    return Objectives((slo, Objective("*", keep=SHARE, policies=policies)), Goal.LEAST_MEMORY)


@dataclass(frozen=True)
class Found:
    """Intervals until tenants have memory and throughput, and memory freed before the change."""

    mode: str
    memory: dict[str, float]
    throughput: dict[str, float]
    freed_pct: float


def measured(job: Job) -> Found:
    """Run a node through the change of its workload."""
    law = Senpai().plan if job.mode == "senpai" else None
    return _found(job, play(node(job), objectives(job.mode), law=law))


def _found(job: Job, run: Run) -> Found:
    held, memory, throughput = 0, {}, {}
    for name, looks in run.looks.items():
        held += [one for one in looks if one.time_s < job.step_s][-1].limit_bytes
        after = [one for one in looks if one.time_s >= job.step_s]
        memory[name] = _waited(after[1:], NEEDED_BYTES[name])
        throughput[name] = _first(ops >= ENOUGH_OPS[name] for ops in windows(after))
    return Found(job.mode, memory, throughput, 100 * (1 - held / (LIMIT_BYTES * len(memory))))


def _waited(looks: Sequence[Look], needed_bytes: int) -> float:
    """Return the number of intervals in which a full page cache had a limit below `needed_bytes`.

    Intervals after the first with enough do not count: memory may be taken back by then.
    """
    before = list(takewhile(lambda one: one.limit_bytes < needed_bytes, looks))
    full = dropwhile(lambda one: one.current_bytes < FULL_SHARE * one.limit_bytes, before)
    return float(len(list(full)))


def _first(found: Iterable[bool]) -> float:
    """Return the number of intervals before a condition holds; the whole time if it never does."""
    return next((float(count) for count, is_so in enumerate(found) if is_so), AFTER_S)


def rows(found: Sequence[Found]) -> list[Row]:
    """Return `consolidation.recovery.*` by mode: for each seed, the tenant that waited longest."""
    made: list[Row] = []
    for mode in MODES:
        runs = [one for one in found if one.mode == mode]
        made += Row.worst_of(
            f"consolidation.recovery.{mode}.throughput_intervals",
            [max(one.throughput.values()) for one in runs],
            "intervals",
            reference="from a change of the workload to what is to be kept, the slowest tenant",
        )
        if mode == "static":
            continue
        made += Row.worst_of(
            f"consolidation.recovery.{mode}.memory_intervals",
            [max(one.memory.values()) for one in runs],
            "intervals",
            goal=None if mode == "senpai" else GOAL_INTERVALS,
            reference="from the first interval with a full page cache to memory for it",
        )
        made.append(
            Row.of_runs(
                f"consolidation.recovery.{mode}.freed_pct",
                [one.freed_pct for one in runs],
                "%",
                better="higher",
                reference="of the memory of three tenants, before their workload changed",
            )
        )
    return made


def measure(seconds: float, seeds: int) -> list[Row]:
    """Run all seeds, two runs side by side. The workload changes after half of the time."""
    jobs = [
        Job(seed, mode, seconds / 2 * (SENPAI_TIMES if mode == "senpai" else 1.0))
        for seed in range(1, seeds + 1)
        for mode in MODES
    ]
    found = []
    for job, one in zip(jobs, side_by_side(measured, jobs), strict=True):
        say(
            f"recovery, seed {job.seed}, {job.mode}: {one.freed_pct:.1f}% free before; "
            f"intervals to memory {one.memory}, to throughput {one.throughput}"
        )
        found.append(one)
    return rows(found)
