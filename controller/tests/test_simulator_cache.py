# SPDX-License-Identifier: Apache-2.0
"""The running page cache in Python: policies and sizes change while it runs."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cachepilot._models import Cache, ModelsError, policies_json, simulate_hits

POLICIES = [one["name"] for one in json.loads(policies_json())]
SIZE = 320
REFUSALS: dict[str, Callable[[Cache], object]] = {
    "swap": lambda cache: cache.swap("nosuch"),
    "resize to nothing": lambda cache: cache.resize(0),
    "resize beyond the range": lambda cache: cache.resize(1 << 40),
}


def requests(count: int = 6000, seed: int = 1) -> NDArray[np.uint64]:
    """Return skewed requests for more pages than the cache holds, with a scan in the middle."""
    random = np.random.default_rng(seed)
    skewed = (random.pareto(0.8, count) * 40).astype(np.uint64) % np.uint64(2000)
    skewed[count // 3 : count // 3 + 500] = np.arange(5000, 5500)
    return skewed


def held(cache: Cache) -> list[int]:
    """Return the resident pages, sorted. Fails if a page is there twice."""
    found = cache.resident().tolist()
    assert len(set(found)) == len(found)
    return sorted(found)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_running_cache_hits_like_the_simulation_of_a_trace(policy: str) -> None:
    keys = requests()
    found = Cache(policy, SIZE, seed=7).run(keys)
    assert found.shape == keys.shape and 0 < found.sum() < len(keys)
    assert np.array_equal(found, simulate_hits(keys, policy, SIZE, seed=7))


@given(cuts=st.lists(st.integers(0, 3000), max_size=5))
@settings(max_examples=20)
def test_requests_may_come_in_pieces(cuts: list[int]) -> None:
    keys, cache = requests(3000), Cache("s3fifo", SIZE)
    pieces = np.split(keys, sorted(cuts))
    found = np.concatenate([cache.run(np.ascontiguousarray(one)) for one in pieces])
    assert np.array_equal(found, simulate_hits(keys, "s3fifo", SIZE))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_swap_keeps_the_resident_pages(policy: str) -> None:
    cache = Cache("lru", SIZE)
    cache.run(requests())
    before = held(cache)
    cache.swap(policy)
    assert held(cache) == before
    assert cache.run(np.array(before, dtype=np.uint64)).all()
    cache.swap("lru")
    assert held(cache) == before


def test_a_policy_that_was_swapped_in_is_the_one_that_runs() -> None:
    again = np.tile(np.arange(2 * SIZE, dtype=np.uint64), 20)
    cache = Cache("lru", SIZE)
    assert not cache.run(again).any()
    cache.swap("mru")
    assert cache.run(again).mean() > 0.3


def test_pages_are_adopted_oldest_first() -> None:
    cache = Cache("lru", SIZE)
    cache.run(np.arange(SIZE, dtype=np.uint64))
    oldest = held(cache)[0]
    cache.swap("fifo")
    while oldest in held(cache):
        cache.run(np.array([cache.resident().max() + 1], dtype=np.uint64))
    gone = set(range(SIZE)) - set(held(cache))
    assert gone == set(range(len(gone)))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_new_size_bounds_the_cache_at_once(policy: str) -> None:
    cache = Cache(policy, SIZE)
    cache.run(requests())
    before = held(cache)
    cache.resize(100)
    assert len(held(cache)) <= 100
    assert set(held(cache)) <= set(before)
    cache.run(requests(seed=2))
    assert 50 < len(held(cache)) <= 100
    cache.resize(2 * SIZE)
    cache.run(requests(seed=3))
    assert SIZE < len(held(cache)) <= 2 * SIZE


def test_a_swap_after_another_size_keeps_that_size() -> None:
    cache = Cache("lru", SIZE)
    cache.resize(4 * SIZE)
    cache.run(requests())
    before = held(cache)
    assert len(before) > SIZE
    cache.swap("s3fifo")
    assert held(cache) == before


@pytest.mark.parametrize(
    ("policy", "size", "message"),
    [
        ("nosuch", SIZE, r'^policy: "nosuch" is none of .*\blru\b'),
        ("opt", SIZE, r"^policy: opt looks ahead"),
        ("lru", 0, r"^size: 0 pages are not in 1\.\.=\d+$"),
        ("lru", 1 << 40, rf"^size: {1 << 40} pages are not in 1\.\.=\d+$"),
    ],
)
def test_a_cache_that_cannot_be_is_refused(policy: str, size: int, message: str) -> None:
    with pytest.raises(ModelsError, match=message) as caught:
        Cache(policy, size)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("refused", REFUSALS)
def test_a_refused_change_leaves_the_cache_as_it_was(refused: str) -> None:
    one, other = Cache("sieve", SIZE), Cache("sieve", SIZE)
    one.run(requests())
    other.run(requests())
    with pytest.raises(ModelsError, match=r"^(policy|size): "):
        REFUSALS[refused](one)
    again = requests(seed=2)
    assert np.array_equal(one.run(again), other.run(again))
    assert held(one) == held(other)


def test_keys_that_are_not_contiguous_are_refused() -> None:
    with pytest.raises(ModelsError, match="not contiguous"):
        Cache("lru", SIZE).run(requests()[::2])


def test_an_empty_cache_holds_nothing_and_no_requests_change_nothing() -> None:
    cache = Cache("lru", SIZE)
    assert cache.run(np.array([], dtype=np.uint64)).shape == (0,)
    assert held(cache) == []
