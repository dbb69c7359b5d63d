# SPDX-License-Identifier: Apache-2.0
"""The kernel under test: every case of the guest program is a test of its own.

The program of `tests/kernel/guest` runs in virtual machines, many cases in each, and prints a line
of JSON for every case. A machine is started when the first of its cases is asked for.
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
class Boot:
    """A machine and the sets of cases that run in it."""

    machine: Machine
    sets: tuple[str, ...]


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


_BASE = Machine(cpus=2, memory_bytes=1024 * MIB, disk_bytes=1024 * MIB, timeout_seconds=900)
BOOTS = {
    "ext4": Boot(_BASE, ("ext4", "ext4-mglru")),
    "xfs": Boot(replace(_BASE, filesystem="xfs"), ("xfs", "xfs-mglru")),
    "nodes": Boot(
        replace(_BASE, memory_bytes=192 * MIB, append="numa=fake=2"), ("nodes", "nodes-mglru")
    ),
}

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


def listed_cases() -> list[tuple[str, str, str]]:
    """Boot, set and name of every case that runs by default; none when nothing is built."""
    if not PROGRAM.exists():
        return []
    done = subprocess.run([PROGRAM, "--list"], check=True, capture_output=True, text=True)
    listed = [(case["set"], case["case"]) for case in json.loads(done.stdout)]
    return [
        (name, group, case)
        for name, boot in BOOTS.items()
        for group, case in listed
        if group in boot.sets
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives every test that asks for a case, or for a boot, all there are."""
    if "guest_case" in metafunc.fixturenames:
        cases = listed_cases()
        names = [f"{group}-{case}" for _, group, case in cases]
        metafunc.parametrize("guest_case", cases or [None], ids=names or ["not-built"])
    if "boot" in metafunc.fixturenames:
        metafunc.parametrize("boot", list(BOOTS))


@pytest.fixture(scope="session")
def run_guest(patched_kernel: Path, trouble: Trouble) -> RunGuest:
    """Runs the program in a new machine."""
    assert patched_kernel.is_dir()
    assert PROGRAM.exists(), f"{PROGRAM} is not built: make test builds it"
    return partial(run_program, trouble)


@pytest.fixture(scope="session")
def finish(run_guest: RunGuest) -> Finish:
    """What became of a boot's cases, which run when they are asked for the first time."""
    done: dict[str, Finished] = {}

    def get(name: str) -> Finished:
        if name not in done:
            boot = BOOTS[name]
            done[name] = run_guest(
                boot.machine, [word for group in boot.sets for word in ("--set", group)]
            )
        return done[name]

    return get


@pytest.fixture(scope="session")
def finish_debug(run_guest: RunGuest, debug_kernel: Path) -> Finish:
    """The same on the kernel with every check switched on; slower, and it needs more memory."""
    assert debug_kernel.is_dir()

    def get(name: str) -> Finished:
        boot = BOOTS[name]
        machine = replace(
            boot.machine,
            kernel="debug",
            memory_bytes=max(boot.machine.memory_bytes, 768 * MIB),
            timeout_seconds=7200,
        )
        return run_guest(machine, [word for group in boot.sets for word in ("--set", group)])

    return get
