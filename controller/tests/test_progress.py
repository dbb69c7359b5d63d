# SPDX-License-Identifier: Apache-2.0
"""Progress: silent off a terminal and for two seconds, then a bar."""

import io

from cachepilot.cli.terminal.progress import DELAY_SECONDS, Reporter


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that advances when the test advances it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_no_report_off_a_terminal() -> None:
    stream = io.StringIO()
    with Reporter(stream, Clock()) as reporter, reporter.stage("reading") as report:
        assert report is None
    assert stream.getvalue() == ""


def test_short_work_shows_nothing() -> None:
    stream, clock = Terminal(), Clock()
    with Reporter(stream, clock) as reporter:
        for _ in range(2):
            with reporter.stage("reading") as report:
                assert report is not None
                clock.now += DELAY_SECONDS * 0.49
                report(0.5)
    assert stream.getvalue() == ""


def test_long_work_shows_its_stage_and_share() -> None:
    stream, clock = Terminal(), Clock()
    with Reporter(stream, clock) as reporter:
        with reporter.stage("reading") as report:
            assert report is not None
            report(0.1)
            assert stream.getvalue() == ""
            clock.now += DELAY_SECONDS
            report(0.25)
        assert "reading" in stream.getvalue()
        assert " 25%" in stream.getvalue()
        with reporter.stage("simulating") as report:
            assert report is not None
            report(1.5)
    assert "simulating" in stream.getvalue()
    assert "100%" in stream.getvalue()
