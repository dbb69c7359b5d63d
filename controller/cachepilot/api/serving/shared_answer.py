# SPDX-License-Identifier: Apache-2.0
"""One answer for all clients: an expensive result is computed once at a time, on a thread."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

FRESH_S = 5.0
"""Seconds for which an answer is returned again."""

T = TypeVar("T")


class SharedAnswer(Generic[T]):
    """The result of `compute`, shared by all clients; used on one event loop.

    An answer serves all clients that ask while it is computed and for `fresh_s` after that, unless
    `version` changed since the computation began. A failure is raised only to clients that waited
    for it. The owner of `executor` shuts it down.
    """

    def __init__(
        self,
        compute: Callable[[], T],
        version: Callable[[], int],
        executor: ThreadPoolExecutor,
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._compute, self._version = compute, version
        self._fresh_s, self._clock = fresh_s, clock
        self._executor = executor
        self._answer: asyncio.Future[T] | None = None
        self._begun_as = 0
        self._ended_s = 0.0

    def _timed(self) -> T:
        try:
            return self._compute()
        finally:
            self._ended_s = self._clock()

    def _is_fresh(self, answer: asyncio.Future[T]) -> bool:
        if not answer.done():
            return True
        has_failed = answer.cancelled() or answer.exception() is not None
        return not has_failed and self._clock() - self._ended_s < self._fresh_s

    async def get(self) -> T:
        """Return the answer; raise what `compute` raised."""
        wanted = self._version()
        # A computation that began before the change runs to its end: two at a time would cost more.
        while self._answer is not None and not self._answer.done() and self._begun_as < wanted:
            await asyncio.wait([self._answer])
        answer = self._answer
        if answer is None or self._begun_as < wanted or not self._is_fresh(answer):
            self._begun_as = wanted
            loop = asyncio.get_running_loop()
            answer = self._answer = loop.run_in_executor(self._executor, self._timed)
        # A client that disconnects must not cancel the computation for the others.
        return await asyncio.shield(answer)
