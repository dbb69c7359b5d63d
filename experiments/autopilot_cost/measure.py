# SPDX-License-Identifier: Apache-2.0
"""Reads in the guest with and without the agent, and counts the instructions of each read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.kernel_guest.guest_run import Guest, GuestError, Step, run_steps
from experiments.kernel_overhead import measure as overhead
from experiments.kernel_overhead.measure import JOBS
from experiments.shared.rows import ROOT

LIBRARY = Path(__file__).resolve().parent / "guest.sh"
BUILD = ROOT / "build" / "autopilot-cost"
MODES = ("none", "agent")
# As configs/agent.toml, except for what identifies this node. No controller answers, so the session
# (one snapshot per second) is not counted.
AGENT_CONFIG = """node = "guest"
controller = "http://127.0.0.1:7070"
kind = "cache_ext"
state_dir = "/run/agent"
metrics = ""
[kernel]
match = ["bench"]
"""


@dataclass(frozen=True)
class Sizes:
    """What is read, and the number of repeats; see kernel_overhead for the file and the cgroups."""

    cgroup_pct: tuple[int, ...] = (50, 125)
    reads_per_job: int = 30_000
    repeats: int = 2


@dataclass(frozen=True)
class Cost:
    """Instructions per read: of the whole guest, and of the program's cgroup alone."""

    guest: float
    program: float


@dataclass(frozen=True)
class Pair:
    """The same reads without the agent and with it."""

    without: Cost
    with_agent: Cost

    @property
    def total_pct(self) -> float:
        """Additional instructions of the guest, in percent."""
        return (self.with_agent.guest / self.without.guest - 1) * 100

    @property
    def sampler_pct(self) -> float:
        """Additional instructions of the program, in percent.

        The sampler runs as part of its calls.
        """
        return (self.with_agent.program - self.without.program) / self.without.guest * 100

    @property
    def agent_pct(self) -> float:
        """The remaining instructions, in percent: the agent's own process."""
        return self.total_pct - self.sampler_pct


def _guest(folder: Path) -> Guest:
    plain = overhead.guest("patched", icount=True, sizes=overhead.Sizes())
    return replace(plain, out=folder, prepare=[*plain.prepare, f". {LIBRARY}"])


def _command(mode: str, count: int, repeat: int, config: Path) -> str:
    run = f"cost_of {count} {repeat}"
    return run if mode == "none" else f"start_agent {config}\n{run}\nstop_agent"


def _cost(text: str, reads: int) -> Cost:
    """Return the cost of the long run minus the short one; fio's start and end are in both."""
    short, long = json.loads(text.splitlines()[-1])
    guest = (long["busy_ns"] - short["busy_ns"]) / reads
    return Cost(guest, (long["cpu_us"] - short["cpu_us"]) * 1000 / reads)


def pairs(sizes: Sizes) -> dict[int, list[Pair]]:
    """Return, by percentage of the file that fits, a pair per repeat.

    Raises GuestError when a size was never measured both ways.
    """
    BUILD.mkdir(parents=True, exist_ok=True)
    config = BUILD / "agent.toml"
    config.write_text(AGENT_CONFIG, "utf-8")
    cells = [
        (mode, percent, repeat)
        for repeat in range(sizes.repeats)
        for percent in sizes.cgroup_pct
        for mode in MODES
    ]
    steps = [_step(sizes, config, *cell) for cell in cells]
    outputs = run_steps(_guest(BUILD / "guest"), steps)
    reads = JOBS * sizes.reads_per_job
    costs = {
        cell: _cost(outputs[step.name], reads)
        for step, cell in zip(steps, cells, strict=True)
        if step.name in outputs
    }
    return {percent: _paired(costs, percent, range(sizes.repeats)) for percent in sizes.cgroup_pct}


def _step(sizes: Sizes, config: Path, mode: str, percent: int, repeat: int) -> Step:
    bytes_ = overhead.Sizes().cgroup_bytes(percent)
    command = _command(mode, sizes.reads_per_job, repeat, config)
    return Step(
        f"{mode}.{percent}.{repeat}",
        f"fresh_cgroup {bytes_}\nnative_lru default\n{command}",
    )


def _paired(
    costs: dict[tuple[str, int, int], Cost], percent: int, repeats: Sequence[int]
) -> list[Pair]:
    found = [
        Pair(costs["none", percent, repeat], costs["agent", percent, repeat])
        for repeat in repeats
        if all((mode, percent, repeat) in costs for mode in MODES)
    ]
    if not found:
        raise GuestError(f"no measurement succeeded with {percent}% of the file in the cgroup")
    return found
