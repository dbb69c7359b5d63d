# SPDX-License-Identifier: Apache-2.0
"""The extension on arrays: the same answers as on files, no copies, bad arrays refused."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cachepilot import _models

Keys = NDArray[np.uint64]


def zipf_keys(requests: int, pages: int, seed: int = 1) -> Keys:
    random = np.random.default_rng(seed)
    return (random.zipf(1.2, requests) % pages).astype(np.uint64)


def naive_distances(keys: list[int]) -> list[int]:
    stack: list[int] = []
    distances = []
    for key in keys:
        distances.append(len(stack) - stack.index(key) if key in stack else 0)
        if key in stack:
            stack.remove(key)
        stack.append(key)
    return distances


@given(st.lists(st.integers(0, 30), max_size=300))
def test_stack_distances_equal_a_list_searched_from_its_end(keys: list[int]) -> None:
    found = _models.stack_distances(np.array(keys, dtype=np.uint64))
    assert found.tolist() == naive_distances(keys)


def test_an_array_and_a_file_of_it_give_the_same_curves(tmp_path: Path) -> None:
    keys = zipf_keys(200_000, 5_000)
    file = tmp_path / "keys.u64"
    keys.tofile(file)
    sizes = np.array([100, 1_000, 3_000], dtype=np.uint64)
    policies = ["lru", "s3fifo", "opt"]
    exact = (_models.mrc_exact(source, sizes, policies) for source in (keys, str(file), file))
    shards = (_models.mrc_shards(source, sizes, rate=0.3) for source in (keys, file))
    minisim = (_models.mrc_minisim(source, sizes, ["lfu"], smax=2_000) for source in (keys, file))
    for curves in (zip(*exact, strict=True), [tuple(shards)], zip(*minisim, strict=True)):
        for first, *others in curves:
            for other in others:
                np.testing.assert_array_equal(first.miss_ratio, other.miss_ratio)
                np.testing.assert_array_equal(first.stderr, other.stderr)
                assert first.requests == other.requests == len(keys)


def test_full_simulation_agrees_with_the_exact_curve() -> None:
    keys = zipf_keys(50_000, 3_000)
    sizes = np.array([1, 64, 700], dtype=np.uint64)
    (curve,) = _models.mrc_exact(keys, sizes, ["lru"])
    results = _models.simulate(keys, ["lru"], sizes.tolist(), batch=1)
    assert [r.miss_ratio for r in results] == pytest.approx(curve.miss_ratio.tolist(), abs=1e-12)


def test_results_are_the_arrays_themselves() -> None:
    keys = zipf_keys(10_000, 500)
    (curve,) = _models.mrc_exact(keys, np.array([10, 20], dtype=np.uint64), ["lru"])
    assert curve.miss_ratio is curve.miss_ratio
    assert curve.miss_ratio.dtype == np.float64
    assert curve.sizes_pages.tolist() == [10, 20]


def test_read_only_arrays_serve_and_arrays_with_gaps_do_not() -> None:
    keys = zipf_keys(1_000, 100)
    keys.flags.writeable = False
    assert _models.simulate_keys(keys, "fifo", 10).requests == 1_000
    with pytest.raises(_models.ModelsError, match="contiguous"):
        _models.simulate_keys(keys[::2], "fifo", 10)
    with pytest.raises(_models.ModelsError, match="contiguous"):
        _models.mrc_shards(keys[::2], np.array([10], dtype=np.uint64), rate=0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rate": 0.0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"rate": 0.5, "smax": 10}, "rate"),
        ({"smax": 0}, "smax|s_max"),
        ({"rate": 0.5, "half_life": 0.0}, "half_life"),
        ({"rate": 0.5, "half_life": float("inf")}, "half_life"),
    ],
)
def test_invalid_sampling_is_refused(arguments: dict[str, float], message: str) -> None:
    keys = zipf_keys(1_000, 100)
    sizes = np.array([10], dtype=np.uint64)
    with pytest.raises(_models.ModelsError, match=message):
        _models.mrc_shards(keys, sizes, **arguments)  # type: ignore[arg-type]
    with pytest.raises(_models.ModelsError, match=message):
        _models.mrc_minisim(keys, sizes, ["lru"], **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", [[], [0], [5, 0]])
def test_sizes_that_are_none_are_refused(sizes: list[int]) -> None:
    with pytest.raises(_models.ModelsError, match="sizes_pages"):
        _models.mrc_exact(zipf_keys(100, 10), np.array(sizes, dtype=np.uint64), ["lru"])


def test_an_error_in_the_progress_function_comes_through() -> None:
    def fail(share: float) -> None:
        raise RuntimeError(f"at {share}")

    keys = zipf_keys(30_000_000, 1_000_000)
    with pytest.raises(RuntimeError, match="at 0"):
        _models.simulate(keys, ["lru"], [100_000], progress=fail)


def test_an_element_of_a_tunable_overrides_the_array() -> None:
    keys = np.zeros(10, dtype=np.uint64)
    tasks = np.full(10, 7, dtype=np.uint32)
    for _ in range(20):  # the order of a hash map differs each time
        tunables = {"filtered_tasks": 5, "filtered_tasks.3": 7}
        result = _models.simulate_keys(keys, "admission", 4, tasks=tasks, tunables=tunables)
        assert result.misses == 10
