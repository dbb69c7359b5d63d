# SPDX-License-Identifier: Apache-2.0
"""Work in processes of its own, for what does not depend on how fast the machine is."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

PROCESSES = 2

Job = TypeVar("Job")
Found = TypeVar("Found")


def side_by_side(work: Callable[[Job], Found], jobs: Iterable[Job]) -> Iterator[Found]:
    """What `work` makes of each job, in their order; a process that fails ends it all."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        yield from pool.map(work, jobs)
