# SPDX-License-Identifier: Apache-2.0
"""What the kernel experiments make of what they measured."""

import json
from pathlib import Path

import pytest
from experiments.conformance import replay, report
from experiments.conformance.plays import Play
from experiments.kernel_guest import streams
from experiments.kernel_overhead import measure
from experiments.kernel_policies import swap

from cachepilot import _models
from cachepilot.results import read_results


def cell(policy: str, stream: str, kernel: float, simulated: float) -> report.Cell:
    return report.Cell(policy, stream, kernel, simulated, 8000, 1000, 100)


def test_the_largest_difference_of_all_streams_is_the_row() -> None:
    cells = [cell("lru", "zipf", 0.20, 0.21), cell("lru", "loop", 0.95, 1.0)]
    (row,) = report.rows(cells, ["zipf", "loop"])
    assert row.metric == "kernel.conformance_max.lru"
    assert row.value == pytest.approx(0.05)
    assert row.goal == report.GOAL


def test_a_policy_that_did_not_play_every_stream_has_no_row() -> None:
    assert report.rows([cell("lru", "zipf", 0.2, 0.2)], ["zipf", "loop"]) == []


def test_the_kernels_default_is_held_against_its_model() -> None:
    (row,) = report.rows([cell("default", "zipf", 0.2, 0.17)], ["zipf"])
    assert row.metric == "kernel.conformance_max.kernel_lru"
    assert row.goal == report.GOAL_DEFAULT


def test_cells_of_a_later_run_replace_those_of_the_same_play(tmp_path: Path) -> None:
    path = tmp_path / "cells.json"
    report.merge_cells(path, [cell("lru", "zipf", 0.2, 0.2), cell("lru", "loop", 1.0, 1.0)])
    merged = report.merge_cells(path, [cell("lru", "zipf", 0.3, 0.2)])
    assert [(c.stream, c.kernel) for c in merged] == [("loop", 1.0), ("zipf", 0.3)]


def test_the_replay_counts_what_comes_after_the_warm_up() -> None:
    keys = streams.zipf(streams.Shape(pages=400, accesses=3000))
    play = Play("lru", "zipf", 2000, 0, 0.0, 84.0, 1000.0, 0.0)
    hits = _models.simulate_hits(keys, "lru", 100, 32)
    expected = 1 - float(hits[1000:].mean())
    assert replay.miss_ratio(play, keys) == pytest.approx(expected)


def test_refused_candidates_are_replayed_too() -> None:
    keys = streams.loop(streams.Shape(pages=8192, accesses=20_000))
    none, few = (
        replay.miss_ratio(Play("wtinylfu", "loop", 15_000, 0, 0.0, 2000.0, 1000.0, share), keys)
        for share in (0.0, 0.01)
    )
    assert few > none + 0.01


def test_lirs_keeps_its_pages_when_what_is_left_of_a_request_asks_for_few() -> None:
    # A candidate that is refused leaves a request for one page.
    keys = streams.loop(streams.Shape(pages=2048, accesses=20_000))
    none, few = (
        replay.miss_ratio(Play("lirs", "loop", 15_000, 0, 0.0, 480.0, 1000.0, share), keys)
        for share in (0.0, 0.01)
    )
    assert few < none + 0.03


def test_a_swap_is_judged_by_the_ten_seconds_around_it() -> None:
    second = 1_000_000_000
    lines = []
    for tick in range(0, 41):
        # A miss in every fifth access, after 20 s in every fourth.
        misses = 100 * min(tick, 20) * 2 + max(tick - 20, 0) * 250
        line = {"at": "tick", "ns": tick * second, "accesses": tick * 1000}
        lines.append({**line, "memory.cache_ext": {"added": misses}})
    lines.append({"at": "swap", "ns": 20 * second})
    (change,) = swap.differences("\n".join(map(json.dumps, lines)))
    assert change == pytest.approx(0.05)


def test_overhead_is_taken_at_the_same_misses() -> None:
    costs = {
        ("stock", 25): {i: measure.Cost(1000 + 2000 * i, i) for i in (1, 2, 3)},
        # The first run of it failed; it missed more often than the other kernel.
        ("noop", 25): {i: measure.Cost(1010 + 2020 * 4 * i, 4 * i) for i in (2, 3)},
        ("stock", 125): {i: measure.Cost(1000, 0) for i in range(3)},
        ("noop", 125): {i: measure.Cost(1000 + 10 * i, 0) for i in range(3)},
    }
    overhead = measure.overhead_pct(costs, "noop", "stock")
    assert overhead[25] == pytest.approx([1.0, 1.0])
    assert overhead[125] == pytest.approx([0.0, 1.0, 2.0])


@pytest.mark.parametrize("name", ["conformance", "kernel_overhead", "kernel_policies"])
def test_committed_results_are_rows(name: str) -> None:
    path = Path(__file__).resolve().parents[1] / "experiments" / name / "results.json"
    assert read_results(path)
