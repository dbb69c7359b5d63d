# SPDX-License-Identifier: Apache-2.0
"""Runs threads that read cached pages, under each policy, and counts locks meanwhile."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.kernel_guest.compiled import program
from experiments.kernel_guest.guest_run import Guest, GuestError, Step, run_steps
from experiments.shared.rows import ROOT

from cachepilot.vm import Machine

from .locks import Counts, counted

MIB = 1 << 20
BUILD = ROOT / "build" / "kernel-scaling"
FILE = "/mnt/scratch/cached"
NO_POLICY = "default"
# Output of a run of hit_threads: a line of JSON, the text of /proc/lock_stat, and a line "end".
_RUN = re.compile(r"^(\{[^\n]*\})\n(.*?)^end$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Sizes:
    """How much is read. The cgroup has room for the file twice, so that nothing is reclaimed."""

    file_mib: int = 16
    threads: tuple[int, ...] = (1, 2, 4, 8)
    reads_per_thread: int = 2000
    repeats: int = 3


@dataclass(frozen=True)
class Run:
    """One run with a number of threads: reads (all hits), their time, and the series' locks."""

    threads: int
    reads: int
    seconds: float
    locks: Counts

    @property
    def reads_per_second(self) -> float:
        """Reads per second of all threads together."""
        return self.reads / self.seconds


def runs_of(text: str, names: frozenset[str]) -> list[Run]:
    """Return the runs that the program printed."""
    found = []
    for line, shown in _RUN.findall(text):
        told = json.loads(line)
        seconds = told["ns"] / 1e9
        found.append(Run(told["threads"], told["reads"], seconds, counted(shown, names)))
    return found


def _command(policy: str, sizes: Sizes) -> str:
    threads = " ".join(str(count) for count in sizes.threads for _ in range(sizes.repeats))
    return f"""
	fresh_cgroup {(2 * sizes.file_mib + 32) * MIB}
	policy {policy}
	(
		echo $BASHPID >$BENCH/cgroup.procs
		exec {program("hit_threads")} --file {FILE} --reads {sizes.reads_per_thread} {threads}
	)
"""


def measure(policies: Sequence[str], names: frozenset[str], sizes: Sizes) -> dict[str, list[Run]]:
    """Return the runs of every policy, and those without a policy under NO_POLICY.

    A policy that failed is missing.
    """
    machine = Machine(
        kernel="scaling",
        cpus=max(sizes.threads),
        memory_bytes=1024 * MIB,
        disk_bytes=256 * MIB,
        timeout_seconds=7200,
    )
    guest = Guest(machine, BUILD / "guest", [f"make_file {FILE} {sizes.file_mib * MIB}"])
    steps = [Step(policy, _command(policy, sizes)) for policy in (NO_POLICY, *policies)]
    outputs = run_steps(guest, steps)
    found = {policy: runs_of(text, names) for policy, text in outputs.items()}
    if not found.get(NO_POLICY):
        raise GuestError("no measurement without a policy succeeded")
    return found
