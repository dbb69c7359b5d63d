# SPDX-License-Identifier: Apache-2.0
"""Simulated readahead, from Python and from the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cachepilot import _models, manifest

RunCli = Callable[..., Any]
NAMES = list(manifest.policies(manifest.Kind.READAHEAD))


def rows_of(outcome: Any) -> list[dict[str, Any]]:
    assert (outcome.status, outcome.stderr) == (0, ""), outcome
    rows: list[dict[str, Any]] = json.loads(outcome.stdout)
    return rows


def indices(*values: int) -> NDArray[np.uint64]:
    return np.array(values, dtype=np.uint64)


def test_json_has_one_object_per_readahead_policy(run_cli: RunCli, recording: Path) -> None:
    rows = rows_of(run_cli("readahead", recording, "--size", "20%", "--json"))
    assert [row["policy"] for row in rows] == NAMES
    for row in rows:
        assert (row["reads"], row["writes"], row["size_pages"]) == (2500, 0, 500)
        assert (row["eviction"], row["max_window_pages"]) == ("kernel_lru", 32)
        assert row["miss_ratio"] == row["misses"] / row["reads"]
        assert row["disk_pages"] == row["misses"] + row["ahead_pages"]
        for whose in ("", "own_"):
            became = [row[f"{whose}{what}_pages"] for what in ("used", "wasted", "pending")]
            assert row[f"{whose}ahead_pages"] == sum(became)
    of_policy = {row["policy"]: row for row in rows}
    assert of_policy["linux"]["misses"] == 501, "one of the file in order, all of the other"
    assert of_policy["stride"]["misses"] < 10
    # Pages that the policy leaves to the kernel do not count as its own.
    stride = of_policy["stride"]
    assert stride["own_ahead_pages"] < stride["ahead_pages"]


def test_the_table_has_the_fewest_misses_first(run_cli: RunCli, recording: Path) -> None:
    outcome = run_cli("readahead", recording, "--evict", "s3fifo")
    assert (outcome.status, outcome.stderr) == (0, "")
    lines = [line.split() for line in outcome.stdout.splitlines()]
    policies = [line[0] for line in lines if line and line[0] in NAMES]
    assert policies == ["stride", "leap", "linux"]
    assert "s3fifo evicts" in outcome.stdout


def test_tunables_and_threads_and_windows(run_cli: RunCli, recording: Path) -> None:
    stride = ("readahead", recording, "--policy", "stride", "--json")
    (late,) = rows_of(run_cli(*stride, "--set", "stride.matches=16"))
    (early,) = rows_of(run_cli(*stride, "--threads", "1"))
    assert late["misses"] - early["misses"] == 14
    linux = ("readahead", recording, "--policy", "linux", "--json")
    (small,) = rows_of(run_cli(*linux, "--window", "8"))
    (large,) = rows_of(run_cli(*linux, "--window", "64"))
    assert small["disk_reads"] > large["disk_reads"] + 100


def test_readahead_policies_are_listed(run_cli: RunCli) -> None:
    rows = rows_of(run_cli("policies", "--kind", "readahead", "--json"))
    assert [row["name"] for row in rows] == NAMES
    outcome = run_cli("policies", "stride", "--kind", "readahead")
    assert "max_depth" in outcome.stdout


def test_a_cache_says_of_each_read_whether_it_hit() -> None:
    cache = _models.ReadaheadCache("linux", "lru", 64, 1000)
    assert cache.read(indices(0, 1, 2, 500, 500, 0)).tolist() == [
        *(False, True, True),
        *(False, True, True),
    ]
    result = cache.result()
    assert (result.reads, result.misses, result.miss_ratio) == (6, 2, 2 / 6)
    assert cache.read(indices(1), file=2).tolist() == [False], "another file"
    assert cache.result().reads == 7
    assert cache.read(indices(100, 108), file=3, pages=8).tolist() == [False, False]
    assert (cache.result().reads, cache.result().waits) == (23, 5)
    with pytest.raises(_models.ModelsError, match="pages: 0"):
        cache.read(indices(1), pages=0)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("nope", "lru", 64, 100), "leap, linux, stride"),
        (("linux", "nope", 64, 100), "lru"),
        (("linux", "lru", 3, 100), "fewer than 4"),
        (("linux", "lru", 64, 100, 0), "window"),
        (("linux", "lru", 64, 100, 32, 33), "batch"),
    ],
)
def test_refusals_name_what_is_wrong(arguments: tuple[Any, ...], word: str) -> None:
    with pytest.raises(_models.ModelsError, match=word):
        _models.ReadaheadCache(*arguments)


def test_a_tunable_out_of_range_is_refused(recording: Path) -> None:
    with pytest.raises(_models.ModelsError, match=r"stride\.max_depth"):
        _models.simulate_readahead(
            str(recording), ["stride"], "lru", 64, tunables={"stride": {"max_depth": 99}}
        )
