# SPDX-License-Identifier: Apache-2.0
"""Run every case of the kernel's guest program as a test of its own.

The program of `tests/kernel/guest` runs in virtual machines, one for each set of cases, and prints
a line of JSON for every case. A machine starts when the first of its cases is needed.
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
# On the debug kernel, handing over 2,048 folios takes longer than the time between two swaps.
DEBUG_ARGUMENTS = ("--tolerance", "0.1")


@dataclass(frozen=True)
class Report:
    """What the program reports for one case."""

    ok: bool
    detail: str


@dataclass(frozen=True)
class Finished:
    """What a machine leaves behind.

    The reports by set and case, the problems in the kernel log, and how the machine ended.
    """

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
"""The machine for each set of cases."""

RunGuest = Callable[[Machine, Sequence[str]], Finished]
Finish = Callable[[str], Finished]
Trouble = Callable[[str], tuple[str, ...]]


def run_program(trouble: Trouble, machine: Machine, arguments: Sequence[str]) -> Finished:
    """Run the program in a new machine. Keep what it printed even if the machine dies."""
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
    """Return the cases of a set; an empty list if the program is not built."""
    if not PROGRAM.exists():
        return []
    done = subprocess.run([PROGRAM, "--list"], check=True, capture_output=True, text=True)
    return [case["case"] for case in json.loads(done.stdout) if case["set"] == group]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests: `case` by the cases of the class's set, `group` by the sets."""
    if "case" in metafunc.fixturenames:
        cases = listed_cases(metafunc.cls.group)
        metafunc.parametrize("case", cases or [None], ids=cases or ["not-built"])
    elif "group" in metafunc.fixturenames:
        metafunc.parametrize("group", list(MACHINES))


@pytest.fixture(scope="session")
def run_guest(patched_kernel: Path, trouble: Trouble) -> RunGuest:
    """Return a function that runs the program in a new machine."""
    assert patched_kernel.is_dir()
    assert PROGRAM.exists(), f"{PROGRAM} is not built: make test builds it"
    return partial(run_program, trouble)


@pytest.fixture(scope="session")
def finish(run_guest: RunGuest) -> Finish:
    """Return a function that runs a set's cases once and returns the outcome on every call."""
    done: dict[str, Finished] = {}

    def get(group: str) -> Finished:
        if group not in done:
            done[group] = run_guest(MACHINES[group], ["--set", group])
        return done[group]

    return get


@pytest.fixture(scope="session")
def finish_debug(run_guest: RunGuest, debug_kernel: Path) -> Finish:
    """Return the same function for the debug kernel, which is slower and needs more memory."""
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
