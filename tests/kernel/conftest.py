# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests in virtual machines: QEMU, the kernels, and the agent's node program."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cachepilot.vm import host

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "kernel" / "build"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
NODE = "cachepilot-kernel-node"
TROUBLE = ("WARNING:", "BUG:", "Oops", "Call Trace", "INFO: task", "rcu: INFO", "self-detected")


def _built(kernel: str) -> Path:
    built = subprocess.run([str(BUILD), kernel], stdout=subprocess.PIPE, text=True, check=True)
    return Path(built.stdout.strip())


@pytest.fixture(scope="session")
def machines() -> None:
    """Skip the tests if virtual machines cannot be started here."""
    if shutil.which(host.QEMU) is None:
        pytest.skip(f"{host.QEMU} is not installed, and scripts/setup kernel could not install it")


@pytest.fixture(scope="session")
def patched_kernel(machines: None) -> Path:
    """Return the folder of the patched kernel. Build it if the cache does not have it."""
    return _built("patched")


@pytest.fixture(scope="session")
def debian_kernel(machines: None) -> Path:
    """Return the folder of Debian's kernel. Unpack it if the cache does not have it."""
    return _built("debian")


@pytest.fixture(scope="session")
def debug_kernel(patched_kernel: Path) -> Path:
    """Return the folder of the kernel with all checks. Build it if the cache does not have it."""
    assert patched_kernel.is_dir()
    return _built("debug")


@pytest.fixture(scope="session")
def node() -> Path:
    """Return the program of the agent's node: from the environment, or built here."""
    named = os.environ.get("CACHEPILOT_KERNEL_NODE")
    if named:
        return Path(named)
    build = f"cargo build --release --locked -p cachepilot-kernel-tests --bin {NODE}"
    subprocess.run(build.split(), cwd=ROOT, check=True)
    return TARGET / NODE


@pytest.fixture(scope="session")
def trouble() -> Callable[[str], tuple[str, ...]]:
    """Return a function that finds the first warning or error in a kernel log.

    It returns the lines around that one, from 6 before to 40 after, or an empty tuple.
    """

    def found(log: str) -> tuple[str, ...]:
        lines = log.splitlines()
        bad = (number for number, line in enumerate(lines) if any(word in line for word in TROUBLE))
        first = next(bad, None)
        return () if first is None else tuple(lines[max(0, first - 6) : first + 40])

    return found


@pytest.fixture(scope="session")
def seconds() -> Callable[[int], int]:
    """Return a function that gives the duration of a long test in seconds.

    CACHEPILOT_LONG_SECONDS can reduce it.
    """
    return lambda usual: min(usual, int(os.environ.get("CACHEPILOT_LONG_SECONDS", usual)))
