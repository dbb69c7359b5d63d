# SPDX-License-Identifier: Apache-2.0
"""Progress bars on stderr: only on a terminal, and only for work of more than two seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY_SECONDS = 2.0

Report = Callable[[float], None]


class Reporter:
    """The progress of one command, stage after stage, in one bar that disappears at the end."""

    def __init__(
        self,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        delay_seconds: float = DELAY_SECONDS,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._shown_from = clock() + delay_seconds
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    @contextmanager
    def stage(self, label: str) -> Iterator[Report | None]:
        """Yield a function that reports the done share (0 to 1) of this stage.

        Yields None if stderr is not a terminal.
        """
        if not self._stream.isatty():
            yield None
            return
        if self._bar is not None and self._task is not None:
            self._bar.reset(self._task, description=label, total=1.0)

        def report(share: float) -> None:
            self._show(label, share)

        yield report

    def _show(self, label: str, share: float) -> None:
        if self._bar is None:
            if self._clock() < self._shown_from:
                return
            self._bar = self._new_bar()
            self._task = self._bar.add_task(label, total=1.0)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=min(share, 1.0), refresh=True)

    def _new_bar(self) -> "Progress":
        # Most commands end before a bar would appear, and importing rich takes most of their time.
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        return Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            console=Console(file=self._stream, markup=False, highlight=False),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
