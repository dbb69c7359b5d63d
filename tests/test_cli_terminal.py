# SPDX-License-Identifier: Apache-2.0
"""Progress bars, Ctrl-C and a reader that closes its pipe, on real terminals and pipes."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

COMMAND = [sys.executable, "-m", "cachepilot.cli"]
LONG = ("--policy", "all", "--method", "exact", "--threads", "1", "--json")
LONG_REQUESTS = 2_000_000


@pytest.fixture
def long_trace(tmp_path: Path) -> Path:
    """Write a trace of uniform accesses; all exact curves of it take far more than 2 s."""
    path = tmp_path / "long.u64"
    keys = np.random.default_rng(1).integers(0, LONG_REQUESTS // 4, LONG_REQUESTS)
    keys.astype("<u8").tofile(path)
    return path


@contextmanager
def on_terminal(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a command whose stderr is a terminal. Yield the process and our end of the terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as process:
        os.close(theirs)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


def read_until(terminal: int, wanted: str, seconds: float) -> str:
    """Return what the terminal shows until `wanted` appears, it is closed, or the time is up."""
    text = ""
    deadline = time.monotonic() + seconds
    while wanted not in text and time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            text += os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # closed on the other side
            break
    return text


def test_short_work_shows_no_bar(trace: Path) -> None:
    with on_terminal("sim", trace, "--policy", "lru", "--json") as (process, terminal):
        assert read_until(terminal, "no such text", seconds=60) == ""
        assert process.wait(timeout=60) == 0


def test_long_work_shows_a_bar_until_ctrl_c(long_trace: Path) -> None:
    started = time.monotonic()
    with on_terminal("mrc", long_trace, *LONG) as (process, terminal):
        text = read_until(terminal, "%", seconds=60)
        assert "exact curves of long.u64" in text
        assert time.monotonic() - started >= 2
        process.send_signal(signal.SIGINT)
        assert "cachepilot: interrupted" in read_until(terminal, "interrupted\r\n", seconds=30)
        assert process.wait(timeout=30) == 130
        assert process.stdout is not None
        assert process.stdout.read() == ""


def test_without_a_terminal_long_work_is_silent_and_ctrl_c_says_one_line(long_trace: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "mrc", str(long_trace), *LONG],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            time.sleep(4)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    assert (stdout, stderr) == ("", "cachepilot: interrupted\n")


def test_a_reader_that_closes_its_pipe_is_no_error(trace: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "trace", "head", str(trace), "-n", "4000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
