# SPDX-License-Identifier: Apache-2.0
"""Arrays that other threads write during a call, and arrays of every shape."""

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from cachepilot import _models

REQUESTS = 600_000
"""More requests than are copied at a time."""
FIRST, SECOND = 3, 2**63 + 5

Call = Callable[[NDArray[np.uint64]], object]
SIZES = np.array([1, 2], dtype=np.uint64)
CALLS: dict[str, Call] = {
    "simulate": lambda keys: _models.simulate(keys, ["lru", "opt"], [1]),
    "simulate_keys": lambda keys: _models.simulate_keys(keys, "lru", 1),
    "simulate_hits": lambda keys: _models.simulate_hits(keys, "lru", 1),
    "mrc_exact": lambda keys: _models.mrc_exact(keys, SIZES[:1], ["lru"]),
    "mrc_shards": lambda keys: _models.mrc_shards(keys, SIZES[:1], rate=1.0),
    "stack_distances": _models.stack_distances,
    "Cache.run": lambda keys: _models.Cache("lru", 1).run(keys),
}


@pytest.fixture
def written() -> Iterator[NDArray[np.uint64]]:
    """Return an array that a thread fills with one of two pages, again and again."""
    keys = np.full(REQUESTS, FIRST, dtype=np.uint64)
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            keys.fill(SECOND)
            keys.fill(FIRST)

    writer = threading.Thread(target=write)
    writer.start()
    yield keys
    ended.set()
    writer.join()


@pytest.mark.parametrize("name", CALLS)
def test_an_array_that_is_written_meanwhile_is_read_whole(
    written: NDArray[np.uint64], name: str
) -> None:
    for _ in range(3):
        CALLS[name](written)


def test_no_page_is_made_of_two_halves(written: NDArray[np.uint64]) -> None:
    for _ in range(10):
        cache = _models.Cache("fifo", 8)
        cache.run(written)
        assert set(cache.resident().tolist()) <= {FIRST, SECOND}


def test_every_request_is_read_once(written: NDArray[np.uint64]) -> None:
    for _ in range(3):
        distances = _models.stack_distances(written)
        # With two pages, distances are 1 and 2, except for the first access of each page.
        assert set(np.unique(distances[2:]).tolist()) <= {0, 1, 2}
        assert np.count_nonzero(distances == 0) <= 2


@pytest.mark.parametrize("name", CALLS)
def test_arrays_with_gaps_are_refused_and_their_copies_accepted(name: str) -> None:
    keys = np.arange(2000, dtype=np.uint64) % np.uint64(7)
    with pytest.raises(_models.ModelsError, match="contiguous"):
        CALLS[name](keys[::2])
    CALLS[name](np.ascontiguousarray(keys[::2]))


def test_an_array_off_alignment_is_refused() -> None:
    keys = np.frombuffer(b"\0" * 81, dtype=np.uint8)[1:].view(np.uint64)
    with pytest.raises(_models.ModelsError, match="aligned"):
        _models.stack_distances(keys)


def test_pieces_make_the_whole() -> None:
    keys = (np.random.default_rng(1).zipf(1.1, REQUESTS) % 5000).astype(np.uint64)
    tasks = (np.arange(REQUESTS) % 5).astype(np.uint32)
    cache = _models.Cache("lru", 300)
    parts = [cache.run(part) for part in np.array_split(keys, 97)]
    assert np.array_equal(np.concatenate(parts), _models.simulate_hits(keys, "lru", 300))
    distances = _models.stack_distances(keys)
    (exact,) = _models.mrc_exact(keys, np.array([300], dtype=np.uint64), ["lru"])
    missed = np.count_nonzero((distances == 0) | (distances > 300)) / REQUESTS
    assert exact.miss_ratio[0] == pytest.approx(missed)
    result = _models.simulate_keys(keys, "lru", 300, tasks=tasks)
    assert result.requests == REQUESTS
    with pytest.raises(_models.ModelsError, match="not as long as keys"):
        _models.simulate_keys(keys, "lru", 300, tasks=tasks[1:])
