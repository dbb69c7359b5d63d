# SPDX-License-Identifier: Apache-2.0
"""The recorder, on programs whose every page read is known."""

import json
import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docs_examples import recordings
from numpy.typing import NDArray

from cachepilot import _models

RECORDER = Path(__file__).parent.parent / "experiments" / "recorded_traces" / "record.py"
PAGE = 4096


def can_trace() -> bool:
    """Whether strace can follow a process on this machine."""
    done = subprocess.run(["strace", "-o", "/dev/null", "true"], check=False, capture_output=True)
    return done.returncode == 0


pytestmark = pytest.mark.skipif(not can_trace(), reason="strace cannot trace here")


def run_recorder(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(RECORDER), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write a file of 64 pages, with a name that strace has to escape."""
    path = tmp_path / 'da>ta), "é\n) = 3'
    path.write_bytes(os.urandom(64 * PAGE))
    return path


def record(tmp_path: Path, script: str, *arguments: Path) -> tuple[NDArray[Any], dict[str, Any]]:
    """Record a Python script. Return its records of the files in `arguments`, and the summary."""
    program = tmp_path / "program.py"
    program.write_text("import os, sys, threading\n" + textwrap.dedent(script))
    out = tmp_path / "out.cptrace.zst"
    command = [sys.executable, "-I", "-S", program, *arguments]
    done = run_recorder(out, "--json", "--", *command)
    assert done.returncode == 0, done.stderr
    records = _models.read_records(str(out))
    wanted = [os.stat(path).st_ino for path in arguments]
    return records[np.isin(records["inode"], wanted)], json.loads(done.stdout)


def indexes(records: NDArray[Any]) -> list[int]:
    return [int(index) for index in records["index"]]


def test_every_kind_of_read(tmp_path: Path, data: Path) -> None:
    records, summary = record(
        tmp_path,
        """
        fd = os.open(sys.argv[1], os.O_RDONLY)
        os.read(fd, 4096)                      # 0
        os.read(fd, 4097)                      # 1 2
        os.pread(fd, 2, 10 * 4096 - 1)         # 9 10, offset stays
        os.read(fd, 4095)                      # 2
        os.lseek(fd, 20 * 4096, os.SEEK_SET)
        os.readv(fd, [bytearray(4096), bytearray(4096)])   # 20 21
        os.preadv(fd, [bytearray(10)], 30 * 4096)          # 30
        os.lseek(fd, 4096, os.SEEK_CUR)
        os.read(fd, 1)                         # 23
        os.lseek(fd, -1, os.SEEK_END)
        os.read(fd, 100)                       # 63
        os.read(fd, 100)                       # end of file
        sink = os.open(os.devnull, os.O_WRONLY)
        os.sendfile(sink, fd, 40 * 4096, 4096)             # 40
        """,
        data,
    )
    assert indexes(records) == [0, 1, 2, 9, 10, 2, 20, 21, 30, 23, 63, 40]
    status = os.stat(data)
    device = os.major(status.st_dev) << 20 | os.minor(status.st_dev)
    assert set(records["device"]) == {device}
    assert not records["flags"].any()
    assert (np.diff(records["time_ns"].astype(np.int64)) >= 0).all()
    assert summary["status"] == 0
    assert summary["stopped_by"] is None


def test_small_reads_of_one_page_count_once(tmp_path: Path, data: Path) -> None:
    script = """
    fd = os.open(sys.argv[1], os.O_RDONLY)
    for _ in range(9):
        os.read(fd, 1024)
    os.pread(fd, 10, 0)
    os.pread(fd, 10, 0)
    """
    assert indexes(record(tmp_path, script, data)[0]) == [0, 1, 2, 0]


def test_offsets_are_shared_by_dup_and_fork_and_not_by_open(tmp_path: Path, data: Path) -> None:
    records, _ = record(
        tmp_path,
        """
        fd = os.open(sys.argv[1], os.O_RDONLY)
        other = os.open(sys.argv[1], os.O_RDONLY)
        os.read(fd, 4096)               # 0
        copy = os.dup(fd)
        os.read(copy, 4096)             # 1
        os.dup2(fd, 77)
        os.close(fd)
        child = os.fork()
        if child == 0:
            os.read(77, 4096)           # 2
            os.close(copy)
            mine = os.open(sys.argv[1], os.O_RDONLY)    # may get the number that was freed
            os.read(mine, 4096)         # 0
            os._exit(0)
        os.waitpid(child, 0)
        os.read(copy, 4096)             # 3
        os.read(other, 4096)            # 0
        """,
        data,
    )
    assert indexes(records) == [0, 1, 2, 0, 3, 0]
    parent, child = records["task"][0], records["task"][2]
    assert parent != child
    assert list(records["task"]) == [parent, parent, child, child, parent, parent]


def test_threads_share_descriptors(tmp_path: Path, data: Path) -> None:
    records, _ = record(
        tmp_path,
        """
        files = []
        def opens():
            files.append(os.open(sys.argv[1], os.O_RDONLY))
            os.read(files[0], 8192)     # 0 1
        thread = threading.Thread(target=opens)
        thread.start()
        thread.join()
        os.read(files[0], 4096)         # 2
        """,
        data,
    )
    assert indexes(records) == [0, 1, 2]
    assert records["task"][0] == records["task"][1] != records["task"][2]


def test_exec_keeps_only_what_is_not_closed_by_it(tmp_path: Path, data: Path) -> None:
    records, _ = record(
        tmp_path,
        """
        if len(sys.argv) == 2:
            kept = os.open(sys.argv[1], os.O_RDONLY)
            os.set_inheritable(kept, True)
            closed = os.open(sys.argv[1], os.O_RDONLY)
            os.read(kept, 4096)         # 0
            os.read(closed, 12288)      # 0 1 2
            numbers = [str(kept), str(closed)]
            os.execv(sys.executable, [sys.executable, "-I", "-S", *sys.argv, *numbers])
        kept, closed = map(int, sys.argv[2:])
        os.read(kept, 4096)             # 1
        again = os.open(sys.argv[1], os.O_RDONLY)
        assert again == closed
        os.read(again, 4096)            # 0
        """,
        data,
    )
    assert indexes(records) == [0, 0, 1, 2, 1, 0]


def test_writes_move_the_offset_and_are_not_recorded(tmp_path: Path, data: Path) -> None:
    records, summary = record(
        tmp_path,
        """
        fd = os.open(sys.argv[1], os.O_RDWR)
        os.write(fd, bytes(3 * 4096))
        os.pwrite(fd, b"x", 0)
        os.read(fd, 1)                  # 3
        os.close(fd)
        fd = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND)
        os.read(fd, 1)                  # 0
        os.write(fd, bytes(4096))
        os.lseek(fd, -1, os.SEEK_END)
        os.read(fd, 1)                  # 64
        """,
        data,
    )
    assert indexes(records) == [3, 0, 64]
    assert "reads at an unknown offset" not in summary["not_recorded"]


def test_only_regular_files(tmp_path: Path, data: Path) -> None:
    records, summary = record(
        tmp_path,
        """
        here, there = os.pipe()
        os.write(there, bytes(100))
        os.read(here, 100)
        for path in ("/proc/self/status", "/dev/zero"):
            fd = os.open(path, os.O_RDONLY)
            os.read(fd, 4096)
        os.read(os.open(sys.argv[1], os.O_RDONLY), 1)
        """,
        data,
    )
    assert indexes(records) == [0]
    everything = _models.read_records(str(tmp_path / "out.cptrace.zst"))
    assert summary["records"] == len(everything)
    assert not {os.stat(path).st_dev for path in ("/proc", "/dev")} & set(everything["device"])


def test_a_command_that_does_not_end_is_stopped(tmp_path: Path, data: Path) -> None:
    script = "import os, sys\nf = os.open(sys.argv[1], 0)\nwhile True: os.pread(f, 1, 0)\n"
    out = tmp_path / "out.cptrace"
    command = [sys.executable, "-I", "-S", "-c", script, data]
    done = run_recorder(out, "--json", "--limit-seconds", 1, "--", *command)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stopped_by"] == "seconds"
    assert json.loads(done.stdout)["seconds"] < 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["out.cptrace", "--", "no-such-command"], "no-such-command: command not found"),
        (["out.cptrace", "--", "false"], "exit status 1"),
        (["out.csv", "--", "cat", __file__], "out.csv"),
        (["no/out.cptrace", "--", "cat", __file__], "no/out.cptrace"),
    ],
)
def test_a_failed_recording_is_reported_in_one_line(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = run_recorder(tmp_path / arguments[0], *arguments[1:])
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("line", [one.line for one in recordings()])
def test_the_example_of_its_page_works(tmp_path: Path, data: Path, line: str) -> None:
    """The command is as typed on its page, but records a program that ends sooner."""
    words = shlex.split(line)
    command = words.index("--")
    assert (RECORDER.parents[2] / words[1]).samefile(RECORDER)
    quiet = ("cp", data, "/dev/null")
    done = run_recorder(tmp_path / words[2], *words[3:command], "--", *quiet)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] >= 64
