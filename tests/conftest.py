# SPDX-License-Identifier: Apache-2.0
"""Fixtures that run the command line as users do: a process of its own, in an empty folder."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cachepilot import _models

COMMAND = [sys.executable, "-m", "cachepilot.cli"]


@dataclass(frozen=True)
class Outcome:
    """The exit status and the output of a finished process."""

    status: int
    stdout: str
    stderr: str


RunCli = Callable[..., Outcome]


@pytest.fixture
def run_cli(tmp_path: Path) -> RunCli:
    """Return a function that runs `cachepilot` in the test's folder, without a terminal."""

    def run(*arguments: object) -> Outcome:
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Write a `.u64` trace of 4,000 skewed accesses to at most 500 pages."""
    path = tmp_path / "small.u64"
    keys = np.random.default_rng(1).zipf(1.2, 4000) % 500
    keys.astype("<u8").tofile(path)
    return path


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Write a `.cptrace` of two files: one is read in order, every eleventh page of the other."""
    pages = [(7, index) for index in range(2000)] + [(8, 11 * index) for index in range(500)]
    records = np.zeros(len(pages), dtype=_models.record_dtype())
    records["inode"], records["index"] = np.array(pages).T
    records["task"], records["device"] = 42, 1
    records["time_ns"] = 1000 * np.arange(len(pages))
    path = tmp_path / "recording.cptrace"
    _models.write_records(str(path), records)
    return path
