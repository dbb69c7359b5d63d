# SPDX-License-Identifier: Apache-2.0
"""Runs work in separate processes, for results that do not depend on the machine's speed."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

PROCESSES = 2

Job = TypeVar("Job")
Found = TypeVar("Found")


def side_by_side(work: Callable[[Job], Found], jobs: Iterable[Job]) -> Iterator[Found]:
    """Yield the result of `work` for each job, in order. A process that fails ends everything."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        yield from pool.map(work, jobs)
