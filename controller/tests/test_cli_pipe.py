# SPDX-License-Identifier: Apache-2.0
"""A command ends quietly when the reader of its stdout goes away, as `head` does."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from fake_service import FakeService
from served import served

from cachepilot import agent
from cachepilot.errors import InputError

QUIET = (0, 128 + signal.SIGPIPE)
"""0, or the shell's status of a program that ended by SIGPIPE."""
COMMANDS = [
    ("--help",), ("--version",), ("explain", "--help"),
    ("policies",), ("policies", "--json"), ("scorecard",),
]  # fmt: skip
ASKING = [
    ("status",), ("status", "--json"), ("status", "--watch"), ("explain", "/db"), ("history",),
    ("explain", "/db", "--json"), ("slo", "get"), ("slo", "get", "--openslo"), ("consolidate",),
    ("free",), ("free", "--json"), ("free", "--kubernetes"),
]  # fmt: skip
OF_AGENT = [("agent", "metrics"), ("agent", "--help")]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(FakeService()) as found:
        yield found


def _unread(*arguments: str) -> tuple[int, str]:
    """Return the exit status and stderr of a command whose stdout has no reader any more."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cachepilot.cli", *arguments],
            stdout=writer, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            text=True, check=False, timeout=60,
        )  # fmt: skip
    finally:
        os.close(writer)
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_ends_quietly(arguments: tuple[str, ...]) -> None:
    status, said = _unread(*arguments)
    assert status in QUIET and said == ""


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_a_command_that_asks_the_controller_ends_quietly(
    url: str, arguments: tuple[str, ...]
) -> None:
    status, said = _unread(*arguments, "--controller", url)
    assert status in QUIET and said == ""


@pytest.mark.parametrize("arguments", OF_AGENT, ids=" ".join)
def test_a_command_of_the_agent_ends_quietly(arguments: tuple[str, ...]) -> None:
    try:
        agent.find(os.environ)
    except InputError as error:
        pytest.skip(f"there is no agent: {error}")
    status, said = _unread(*arguments)
    assert status in QUIET and said == ""


def test_a_refusal_is_reported_although_stdout_is_closed() -> None:
    status, said = _unread("explain", "/db", "--controller", "nonsense")
    assert status == 2 and len(said.splitlines()) == 1
