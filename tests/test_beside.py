# SPDX-License-Identifier: Apache-2.0
"""scripts/beside: two commands run at once, one of them on the processor time that is left."""

import os
import subprocess
import time
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parent.parent / "scripts" / "beside"


def beside(log: Path, command: str, other: str) -> "subprocess.CompletedProcess[str]":
    words = [str(BESIDE), str(log), "sh", "-c", command, "--", "sh", "-c", other]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)


def test_both_run_at_once_and_one_when_a_processor_is_idle(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    os.mkfifo(first)
    os.mkfifo(second)
    # Each waits for the other, so that one after the other they would never end.
    done = beside(
        tmp_path / "log",
        f"chrt -p $$; echo here >{first}; cat {second}",
        f"chrt -p $$; cat {first}; echo there >{second}",
    )
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "log").read_text("utf-8")
    assert "SCHED_IDLE" in log and log.endswith("there\n")
    assert "SCHED_IDLE" not in done.stdout and done.stdout.endswith("here\n")


@pytest.mark.parametrize(("status", "other"), [(3, "exit 0"), (4, "exit 4")])
def test_a_failure_of_either_is_its_status(tmp_path: Path, status: int, other: str) -> None:
    log = tmp_path / "log"
    done = beside(log, "echo what is wrong; exit 3", other)
    assert done.returncode == status
    assert ("what is wrong" in done.stderr and str(log) in done.stderr) == (status == 3)


def test_the_other_command_is_stopped_with_its_children_after_a_failure(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    wait = f"until [ -s {pid} ]; do sleep 0.01; done; exit 5"
    done = beside(tmp_path / "log", f"sleep 1000 & echo $! >{pid}; wait", wait)
    assert done.returncode == 5
    process = Path("/proc") / pid.read_text("utf-8").strip() / "cmdline"
    deadline = time.monotonic() + 30
    while process.exists() and process.read_bytes():
        assert time.monotonic() < deadline, "its child goes on"
        time.sleep(0.01)


@pytest.mark.parametrize("words", [(), ("log",), ("log", "--", "true"), ("log", "true", "--")])
def test_missing_arguments_are_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [str(BESIDE), *words], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode != 0
    assert "usage: scripts/beside" in done.stderr
    assert not (tmp_path / "log").exists()
