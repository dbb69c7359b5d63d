# SPDX-License-Identifier: Apache-2.0
"""How experiments handle their child processes."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from experiments.autopilot.children import ChildError, Children

DEADLINE_SECONDS = 20.0


def wait_until_ended(children: Children) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        children.check()
        time.sleep(0.01)


def test_a_child_that_dies_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    script = "seq 100; echo why >&2; exit 3"
    with Children(tmp_path) as children:
        children.start("agent", ["sh", "-c", script])
        with pytest.raises(ChildError) as caught:
            wait_until_ended(children)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("agent: ended with status 3")
    assert lines[-2:] == ["100", "why"]
    assert "80" not in lines


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_all_children_end_with_their_block(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        started = [children.start(f"c{i}", ["sleep", "600"]) for i in range(3)]
        children.check()
    assert [child.process.returncode for child in started] == [-signal.SIGTERM] * 3


def test_a_child_that_ignores_the_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.autopilot.children.GRACE_SECONDS", 0.2)
    with Children(tmp_path) as children:
        child = children.start("stubborn", ["sh", "-c", "trap '' TERM; echo on; sleep 600"])
        deadline = time.monotonic() + DEADLINE_SECONDS
        while child.log.read_text() != "on\n" and time.monotonic() < deadline:
            time.sleep(0.01)
    assert child.process.returncode == -signal.SIGKILL


def test_children_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, time\n"
        "from experiments.autopilot.children import Children\n"
        "children = Children(pathlib.Path(sys.argv[1]))\n"
        "print(children.start('c', ['sleep', '600']).process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    root = Path(__file__).parent.parent
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        # Before that, the process is still setpriv and has not requested its death signal yet.
        command = Path(f"/proc/{pid}/comm")
        deadline = time.monotonic() + DEADLINE_SECONDS
        while command.read_text() != "sleep\n" and time.monotonic() < deadline:
            time.sleep(0.01)
        parent.kill()
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(pid)
