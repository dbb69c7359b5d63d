# SPDX-License-Identifier: Apache-2.0
"""The kernel under test: every case of the guest program is a test of its own.

The program of `tests/kernel/guest` runs in virtual machines, one for each set of cases, and prints
a line of JSON for every case. A machine is started when the first of its cases is asked for.
"""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from cachepilot import agent
from cachepilot.vm import Machine, VmError, run

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
PROGRAM = TARGET / "cachepilot-kernel-tests"
OBJECTS = ROOT / "build" / "bpf"
MIB = 1 << 20
# Handing 2,048 folios over takes the debug kernel longer than there is between two swaps.
DEBUG_ARGUMENTS = ("--tolerance", "0.1")


@dataclass(frozen=True)
class Report:
    """What the program said of a case."""

    ok: bool
    detail: str


@dataclass(frozen=True)
class Finished:
    """What a machine left behind: reports by set and case, its kernel's bad news, its end."""

    reports: Mapping[tuple[str, str], Report]
    trouble: tuple[str, ...]
    ending: str


_BASE = Machine(cpus=2, memory_bytes=1024 * MIB, disk_bytes=1024 * MIB, timeout_seconds=1800)
_XFS = replace(_BASE, filesystem="xfs")
_NODES = replace(_BASE, memory_bytes=192 * MIB, append="numa=fake=2")
MACHINES = {
    "ext4": _BASE,
    "ext4-mglru": _BASE,
    "xfs": _XFS,
    "xfs-mglru": _XFS,
    "nodes": _NODES,
    "nodes-mglru": _NODES,
}
"""By the set of cases that runs in it."""

RunGuest = Callable[[Machine, Sequence[str]], Finished]
Finish = Callable[[str], Finished]
Trouble = Callable[[str], tuple[str, ...]]


def run_program(trouble: Trouble, machine: Machine, arguments: Sequence[str]) -> Finished:
    """Runs the program in a new machine, and keeps what it said even if the machine dies."""
    loader = agent.find(os.environ)
    more = DEBUG_ARGUMENTS if machine.kernel == "debug" else ()
    command = [PROGRAM, "--policies", OBJECTS, "--agent", loader, *more, *arguments]
    chunks: list[bytes] = []
    try:
        result = run(machine, [str(word) for word in command], on_output=chunks.append)
        ending = result.errors if result.returncode else ""
        log = result.kernel_log
    except VmError as error:
        ending = log = str(error)
    reports = {}
    for line in b"".join(chunks).decode("utf-8", "replace").splitlines():
        if line.startswith("{") and line.endswith("}"):
            said = json.loads(line)
            reports[said["set"], said["case"]] = Report(said["ok"], said["detail"])
    return Finished(reports, trouble(log), ending)


def listed_cases(group: str) -> list[str]:
    """The cases of a set; none when nothing is built."""
    if not PROGRAM.exists():
        return []
    done = subprocess.run([PROGRAM, "--list"], check=True, capture_output=True, text=True)
    return [case["case"] for case in json.loads(done.stdout) if case["set"] == group]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every case of its class's set for a test of a case; every set for a test of a set."""
    if "case" in metafunc.fixturenames:
        cases = listed_cases(metafunc.cls.group)
        metafunc.parametrize("case", cases or [None], ids=cases or ["not-built"])
    elif "group" in metafunc.fixturenames:
        metafunc.parametrize("group", list(MACHINES))


@pytest.fixture(scope="session")
def run_guest(patched_kernel: Path, trouble: Trouble) -> RunGuest:
    """Runs the program in a new machine."""
    assert patched_kernel.is_dir()
    assert PROGRAM.exists(), f"{PROGRAM} is not built: make test builds it"
    return partial(run_program, trouble)


@pytest.fixture(scope="session")
def finish(run_guest: RunGuest) -> Finish:
    """What became of a set's cases, which run when they are asked for the first time."""
    done: dict[str, Finished] = {}

    def get(group: str) -> Finished:
        if group not in done:
            done[group] = run_guest(MACHINES[group], ["--set", group])
        return done[group]

    return get


@pytest.fixture(scope="session")
def finish_debug(run_guest: RunGuest, debug_kernel: Path) -> Finish:
    """The same on the kernel with every check switched on; slower, and it needs more memory."""
    assert debug_kernel.is_dir()

    def get(group: str) -> Finished:
        machine = replace(
            MACHINES[group],
            kernel="debug",
            memory_bytes=max(MACHINES[group].memory_bytes, 768 * MIB),
            timeout_seconds=7200,
        )
        return run_guest(machine, ["--set", group])

    return get
