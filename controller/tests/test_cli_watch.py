# SPDX-License-Identifier: Apache-2.0
"""`cachepilot status --watch` on a real terminal and in a pipe, until Ctrl-C."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from fake_service import FakeService, tenant
from served import served

COMMAND = [sys.executable, "-m", "cachepilot.cli", "status", "--watch", "--interval", "0.1"]
DEADLINE_SECONDS = 30.0
ALTERNATE_SCREEN, MAIN_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
CURSOR_OFF, CURSOR_ON = "\x1b[?25l", "\x1b[?25h"
CLEAR = "\x1b[2J"


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def url(service: FakeService) -> Iterator[str]:
    with served(service) as url:
        yield url


def read_until(terminal: int, wanted: str) -> str:
    """Return what the terminal shows until `wanted` appears.

    If `wanted` is empty, return everything until the terminal is closed.
    """
    text = ""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline and not (wanted and wanted in text):
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            text += os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            break
    return text


def test_a_terminal_is_redrawn_and_restored(url: str, service: FakeService) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "120", "LINES": "30", "TERM": "xterm-256color"}
    with subprocess.Popen(
        [*COMMAND, "--controller", url], stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        try:
            before = read_until(ours, "/search")
            service.all_tenants = [tenant("/newcomer", "mru", 64)]
            between = read_until(ours, "/newcomer")
            process.send_signal(signal.SIGINT)
            after = read_until(ours, "")
            assert process.wait(DEADLINE_SECONDS) == 0
        finally:
            process.kill()
            os.close(ours)
    assert ALTERNATE_SCREEN in before and CURSOR_OFF in before
    assert "/newcomer" in between and CLEAR not in before + between, "it flickers"
    shown_at_last = after.rpartition(MAIN_SCREEN)[2]
    assert MAIN_SCREEN in after and CURSOR_ON in after and "/newcomer" in shown_at_last
    assert "Traceback" not in after and "interrupted" not in after


def test_a_pipe_gets_a_line_of_json_per_state(url: str) -> None:
    with subprocess.Popen(
        [*COMMAND, "--json", "--controller", url], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_SECONDS) == 0
    assert [len(json.loads(line)["tenants"]) for line in lines] == [4, 4]
