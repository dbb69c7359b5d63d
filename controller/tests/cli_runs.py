# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of commands that ask a controller."""

from collections.abc import Callable, Iterator

import pytest
from fake_service import FakeService
from served import served

from cachepilot import cli
from cachepilot.cli.asking.client import URL_VARIABLE

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def own(service: FakeService) -> Iterator[str]:
    """Start a server for a test that changes something."""
    with served(service) as url:
        yield url


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs one command line. It returns status, stdout and stderr."""

    def run_at(url: str, *arguments: str, columns: int = 130) -> tuple[int, str, str]:
        monkeypatch.setenv(URL_VARIABLE, url)
        monkeypatch.setenv("COLUMNS", str(columns))
        status = cli.run(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run_at
