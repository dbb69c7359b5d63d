# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of reads in the guest, under each kernel."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from experiments.kernel_guest.compiled import program
from experiments.kernel_guest.guest_run import Guest, GuestError, Step, run_steps
from experiments.shared.rows import ROOT

from cachepilot.vm import Machine

LIBRARY = Path(__file__).resolve().parent / "guest.sh"
BUILD = ROOT / "build" / "kernel-overhead"
MIB = 1 << 20
# Threads of fio, in guest.sh.
JOBS = 8


@dataclass(frozen=True)
class Sizes:
    """The file, the limits of the cgroup as shares of it, and how much is read."""

    file_mib: int = 128
    cgroup_pct: tuple[int, ...] = (25, 50, 125)
    reads_per_job: int = 4000
    repeats: int = 9
    # Memory of fio itself, which is charged to the cgroup too.
    margin_mib: int = 8

    def cgroup_bytes(self, percent: int) -> int:
        """Return the limit of a cgroup with room for `percent` of the file."""
        return (self.file_mib * percent // 100 + self.margin_mib) * MIB


@dataclass(frozen=True)
class Mode:
    """A kernel, and whether a policy is attached."""

    name: str
    kernel: str
    attach: str


# This kernel has its static branches patched, as a distribution's kernel has.
KERNEL = "counted"
STOCK = Mode("stock", "counted-stock", ":")
UNATTACHED = Mode("unattached", KERNEL, ":")


def noop(policies: Path) -> Mode:
    """Return the patched kernel with the no-op policy attached."""
    return Mode("noop", KERNEL, f"attach_noop {policies}")


def elsewhere(policies: Path) -> Mode:
    """Return the patched kernel with the no-op policy attached to a cgroup without reads."""
    return Mode("elsewhere", KERNEL, f"attach_elsewhere {policies}")


def guest(kernel: str, icount: bool, sizes: Sizes) -> Guest:
    """Return the machine of a kernel, with the file that is read."""
    file_bytes = sizes.file_mib * MIB
    return Guest(
        Machine(
            kernel=kernel,
            cpus=1,
            memory_bytes=1024 * MIB,
            icount=icount,
            filesystem="none",
            timeout_seconds=3600,
        ),
        BUILD / f"{kernel}-{'icount' if icount else 'time'}",
        prepare=[
            f". {LIBRARY}",
            f"make_memory_disk {sizes.file_mib + 32}",
            f"make_file $DISK/file {file_bytes}",
            f"copy_tools {program('count_cost')}",
        ],
        environment={"FILE_BYTES": str(file_bytes)},
    )


def step(mode: Mode, percent: int, command: str, sizes: Sizes, suffix: str = "") -> Step:
    """Return a step with the command in this mode, in a cgroup that fits `percent` of the file."""
    return Step(
        f"{mode.name}.{percent}{suffix}",
        f"detach_elsewhere\nfresh_cgroup {sizes.cgroup_bytes(percent)}\nnative_lru default\n"
        f"{mode.attach}\n{command}",
    )


@dataclass(frozen=True)
class Cost:
    """CPU time and misses per read of one run. With -icount a nanosecond is an instruction."""

    cpu_ns: float
    misses: float


# By mode and size: every measured run, by its number. Runs with the same number read the same.
Costs = dict[tuple[str, int], dict[int, Cost]]


def _cost(text: str, ios: int) -> Cost:
    """Return the cost of the long run minus the short one; fio's start and end are in both."""
    short, long = json.loads(text.splitlines()[-1])
    return Cost(
        (long["cpu_us"] - short["cpu_us"]) * 1000 / ios,
        (long["block_reads"] - short["block_reads"]) / ios,
    )


def costs(modes: Sequence[Mode], icount: bool, sizes: Sizes) -> Costs:
    """Return every repeat, by mode and size. Modes of one kernel take turns in one machine."""
    found: Costs = {}
    for kernel in dict.fromkeys(mode.kernel for mode in modes):
        cells = [
            (mode, percent, repeat)
            for repeat in range(sizes.repeats)
            for percent in sizes.cgroup_pct
            for mode in modes
            if mode.kernel == kernel
        ]
        steps = [
            step(mode, percent, f"measure {sizes.reads_per_job} {repeat}", sizes, f".{repeat}")
            for mode, percent, repeat in cells
        ]
        outputs = run_steps(guest(kernel, icount, sizes), steps)
        for one, (mode, percent, repeat) in zip(steps, cells, strict=True):
            if one.name in outputs:
                cost = _cost(outputs[one.name], JOBS * sizes.reads_per_job)
                found.setdefault((mode.name, percent), {})[repeat] = cost
    return found


def _at_misses(run: Cost, hit_ns: float, misses: float) -> float:
    """Return what the run would have cost with `misses` misses per read.

    The kernel evicts slightly differently in every run, and a miss costs much more than a hit.
    """
    return hit_ns + (run.cpu_ns - hit_ns) * misses / run.misses if run.misses else run.cpu_ns


def overhead_pct(found: Costs, mode: str, base: str) -> dict[int, list[float]]:
    """Return the overhead of `mode` over `base` in percent, by size, of runs with equal reads."""
    overheads = {}
    for percent in [size for name, size in found if name == mode and (base, size) in found]:
        runs, others = found[mode, percent], found[base, percent]
        hit_ns = _hit_ns(found, mode)
        overheads[percent] = [
            (_at_misses(runs[i], hit_ns, others[i].misses) / others[i].cpu_ns - 1) * 100
            for i in sorted(runs.keys() & others.keys())
        ]
    if not any(overheads.values()):
        raise GuestError(f"no measurement succeeded of both {mode} and {base}")
    return overheads


def _hit_ns(found: Costs, mode: str) -> float:
    """Return the cost of a read when all of the file fits."""
    largest = max(percent for name, percent in found if name == mode)
    return median(run.cpu_ns for run in found[mode, largest].values())
