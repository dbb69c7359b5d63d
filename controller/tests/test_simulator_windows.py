# SPDX-License-Identifier: Apache-2.0
"""Warm-ups and windows of a simulation, compared with hits counted one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cachepilot._models import ModelsError, simulate, simulate_hits

POLICIES = ["lru", "s3fifo", "lirs"]
SIZE = 30


def keys(count: int) -> NDArray[np.uint64]:
    random = np.random.default_rng(3)
    return (random.zipf(1.3, count) % 400).astype(np.uint64)


def optimal_hits(requests: NDArray[np.uint64], size: int) -> list[bool]:
    """Return Belady's OPT by its definition: evict the page that is needed last."""
    resident: set[int] = set()
    hits = []
    for now, key in enumerate(requests.tolist()):
        hits.append(key in resident)
        if key not in resident and len(resident) == size:
            later = requests[now:].tolist()
            resident.remove(max(resident, key=lambda k: later.index(k) if k in later else 1 << 60))
        resident.add(key)
    return hits


@given(
    warmup=st.integers(0, 2999),
    window=st.none() | st.integers(1, 3500),
    policy=st.sampled_from(POLICIES),
)
@settings(max_examples=40)
def test_counts_are_those_of_the_requests_behind_the_warm_up(
    warmup: int, window: int | None, policy: str
) -> None:
    requests = keys(3000)
    missed = ~simulate_hits(requests, policy, SIZE)[warmup:]
    (result,) = simulate(requests, [policy], [SIZE], warmup_requests=warmup, window_requests=window)
    assert (result.requests, result.misses) == (len(missed), missed.sum())
    parts = [] if window is None else np.split(missed, range(window, len(missed), window))
    assert result.window_requests().tolist() == [len(part) for part in parts]
    assert result.window_misses().tolist() == [part.sum() for part in parts]


def test_the_optimum_is_measured_in_the_same_way() -> None:
    requests = keys(600)
    missed = ~np.array(optimal_hits(requests, SIZE))[100:]
    (result,) = simulate(requests, ["opt"], [SIZE], warmup_requests=100, window_requests=150)
    assert (result.requests, result.misses) == (500, missed.sum())
    assert result.window_misses().tolist() == [
        missed[start : start + 150].sum() for start in range(0, 500, 150)
    ]
    assert result.evictions <= result.misses
    (cold,) = simulate(requests, ["opt"], [SIZE])
    (early,) = simulate(requests, ["opt"], [SIZE], warmup_requests=1)
    assert early.evictions == cold.evictions, "the first miss finds room"


@pytest.mark.parametrize("policy", ["lru", "opt"])
@pytest.mark.parametrize(
    ("warmup", "window", "message"),
    [
        (600, None, "warmup: 600 requests: the trace has 600"),
        (1 << 63, None, "warmup: 9223372036854775808 requests"),
        (0, 0, "window: 0 requests: must be 1 or more"),
    ],
)
def test_a_warm_up_or_window_that_measures_nothing_is_refused(
    policy: str, warmup: int, window: int | None, message: str
) -> None:
    with pytest.raises(ModelsError, match=message):
        simulate(keys(600), [policy], [SIZE], warmup_requests=warmup, window_requests=window)
