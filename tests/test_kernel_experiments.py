# SPDX-License-Identifier: Apache-2.0
"""How the kernel experiments evaluate their measurements."""

import json
from pathlib import Path

import pytest
from experiments.conformance import plays, readahead, replay, report
from experiments.conformance.cells import merge_cells
from experiments.conformance.plays import PAGE_BYTES, Play, Size
from experiments.kernel_guest import streams
from experiments.kernel_guest.guest_run import Lines
from experiments.kernel_overhead import hits, measure
from experiments.kernel_policies import swap
from experiments.kernel_scaling import locks
from experiments.kernel_scaling import measure as scaling
from experiments.kernel_scaling.__main__ import rows_of

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
    earlier = [cell("lru", "zipf", 0.2, 0.2), cell("lru", "loop", 1.0, 1.0)]
    merge_cells(path, earlier, report.Cell)
    merged = merge_cells(path, [cell("lru", "zipf", 0.3, 0.2)], report.Cell)
    assert [(c.stream, c.kernel) for c in merged] == [("loop", 1.0), ("zipf", 0.3)]


def play(policy: str, stream: str, accesses: int, *sizes: Size) -> Play:
    return Play(policy, stream, accesses, 0, 0.0, list(sizes), 1000.0)


def test_the_replay_counts_what_comes_after_the_warm_up() -> None:
    keys = streams.zipf(streams.Shape(pages=400, accesses=3000))
    hits = _models.simulate_hits(keys, "lru", 100, 32)
    expected = 1 - float(hits[1000:].mean())
    one, parts = [Size(0, 100)], [Size(0, 100), Size(500, 100), Size(2100, 100)]
    assert replay.miss_ratio(play("lru", "zipf", 2000, *one), keys) == pytest.approx(expected)
    assert replay.miss_ratio(play("lru", "zipf", 2000, *parts), keys) == pytest.approx(expected)


def test_the_replay_follows_the_size() -> None:
    keys = streams.loop(streams.Shape(pages=2048, accesses=6400))
    # The loop has 640 pages. It fits in the second half only, where 128 pages are still to be read.
    sizes = [Size(0, 512), Size(3200, 700)]
    missed = replay.miss_ratio(play("lru", "loop", 6400, *sizes), keys)
    assert missed == pytest.approx((3200 + 128) / 6400)
    # 639 pages are too few: one eviction request takes more than one page.
    lost = replay.miss_ratio(play("lru", "loop", 640, Size(0, 700), Size(5760, 639)), keys)
    assert lost == 1.0


def looked_at(access: int, charged_pages: int, file_pages: int) -> dict[str, object]:
    return {
        "accesses": access,
        "memory.current": charged_pages * PAGE_BYTES,
        "memory.cache_ext": {"resident_pages": file_pages},
        "memory.stat": {"file": file_pages * PAGE_BYTES},
    }


def test_the_size_is_the_limit_without_what_else_is_charged() -> None:
    lines = Lines(
        start={},
        # 40 pages of other memory; 63 while some of them are in per-CPU stock; 45 at the end.
        ticks=[looked_at(256, 319, 256), looked_at(768, 1000, 960)],
        warm=looked_at(512, 552, 512),
        end=looked_at(1024, 995, 950),
        result={},
    )
    room = [Size(0, 937), Size(256, 960), Size(512, 960), Size(768, 960)]
    assert plays.sizes(lines, 1000 * PAGE_BYTES) == room
    # For a policy without records, the kernel only reports the charged pages.
    lines.end["memory.cache_ext"]["resident_pages"] = 0
    assert plays.sizes(lines, 1000 * PAGE_BYTES) == [Size(0, 1000 - 45 + 16)]


def ahead_cell(policy: str, stream: str, kernel: float, wasted: float) -> readahead.Cell:
    return readahead.Cell(policy, stream, kernel, 0.5, 0.4, 0.4, wasted, 0.1, 8000, 1000)


def test_readahead_has_a_row_of_misses_and_one_of_pages() -> None:
    cells = [ahead_cell("leap", "random", 0.51, 0.1), ahead_cell("leap", "strided", 0.47, 0.14)]
    misses, pages = readahead.rows(cells, ["random", "strided"])
    assert misses.metric == "kernel.readahead_conformance_max.leap"
    assert misses.value == pytest.approx(0.03)
    assert pages.metric == "kernel.readahead_pages_conformance_max.leap"
    assert pages.value == pytest.approx(0.04)
    assert readahead.rows(cells[:1], ["random", "strided"]) == []
    (kernel,) = readahead.rows([ahead_cell("none", "random", 0.5, 0.0)], ["random"])
    assert kernel.metric == "kernel.readahead_conformance_max.kernel"


def test_readahead_is_replayed_after_the_warm_up() -> None:
    pages = streams.strided(streams.Shape(pages=2000, accesses=3000))
    counts = readahead.Counts(misses=700, ahead=1500, used=1300, wasted=100)
    play = readahead.Play("stride", "strided", 2000, counts, resident_pages=484.0)
    model = readahead.simulated(play, pages, file_pages=2000)
    whole = _models.ReadaheadCache("stride", "lru", 500, 2000)
    hits = whole.read(pages)
    assert model.misses == 2000 - int(hits[1000:].sum())
    large = streams.large_reads(streams.Shape(pages=4000, accesses=24_000))
    reads = readahead.Play("linux", "large_reads", 2000, counts, resident_pages=484.0)
    of_large = _models.ReadaheadCache("linux", "lru", 500, 4000)
    hits = of_large.read(large, pages=streams.LARGE_READ_PAGES)
    assert readahead.simulated(reads, large, file_pages=4000).misses == int((~hits[1000:]).sum())
    assert 0 < model.used < whole.result().own_used_pages
    compared = readahead.cell(play, pages, file_pages=2000)
    assert (compared.kernel, compared.cache_pages) == (0.35, 500)
    assert compared.simulated == pytest.approx(model.misses / 2000)


def misses_of_a_loop(policy: str, pages: int, size_pages: int, refused_per_million: int) -> float:
    keys = streams.loop(streams.Shape(pages=pages, accesses=20_000))
    hits = _models.simulate_hits(keys, policy, size_pages, refused_per_million=refused_per_million)
    return 1 - float(hits[5000:].mean())


def test_refused_candidates_change_what_wtinylfu_misses() -> None:
    none, few = (misses_of_a_loop("wtinylfu", 8192, 2016, share) for share in (0, 10_000))
    assert few > none + 0.01


def test_lirs_keeps_its_pages_when_what_is_left_of_a_request_asks_for_few() -> None:
    # A rejected candidate leaves an eviction request for one page.
    none, few = (misses_of_a_loop("lirs", 2048, 496, share) for share in (0, 10_000))
    assert few < none + 0.03


def test_a_swap_is_judged_by_the_ten_seconds_around_it() -> None:
    second = 1_000_000_000
    lines = []
    for tick in range(0, 41):
        # Every fifth access misses; after 20 s every fourth.
        misses = 100 * min(tick, 20) * 2 + max(tick - 20, 0) * 250
        line = {"at": "tick", "ns": tick * second, "accesses": tick * 1000}
        lines.append({**line, "memory.cache_ext": {"added": misses}})
    lines.append({"at": "swap", "ns": 20 * second})
    (change,) = swap.differences("\n".join(map(json.dumps, lines)))
    assert change == pytest.approx(0.05)


def test_overhead_is_taken_at_the_same_misses() -> None:
    costs = {
        ("stock", 25): {i: measure.Cost(1000 + 2000 * i, i) for i in (1, 2, 3)},
        # The first run of noop failed; it missed more often than the stock kernel.
        ("noop", 25): {i: measure.Cost(1010 + 2020 * 4 * i, 4 * i) for i in (2, 3)},
        ("stock", 125): {i: measure.Cost(1000, 0) for i in range(3)},
        ("noop", 125): {i: measure.Cost(1000 + 10 * i, 0) for i in range(3)},
    }
    overhead = measure.overhead_pct(costs, "noop", "stock")
    assert overhead[25] == pytest.approx([1.0, 1.0])
    assert overhead[125] == pytest.approx([0.0, 1.0, 2.0])


def test_own_instructions_are_those_of_the_series_and_what_it_adds_to_others() -> None:
    stock = {"folio_mark_accessed": 10.0, "filemap_read": 300.0, "schedule": 5.0}
    profile = {
        "folio_mark_accessed": 14.0,
        "filemap_read": 300.0,
        "schedule": 9.0,
        "__cache_ext_folio_accessed": 20.0,
        "cx_make_moves": 1.0,
        "bpf_cache_ext_list_move": 2.0,
        "(bpf)": 8.0,
        "_raw_spin_lock_irqsave": 3.0,
    }
    assert hits.own_instructions(profile, stock) == 35.0
    assert hits.lock_instructions(profile, {"_raw_spin_trylock": 1.0}) == 2.0


LOCK_STAT = """\
lock_stat version 0.4
  class name  con-bounces  contentions  waittime-min  waittime-max
  &registry->lock:  3  5  0.10  9.99 \
  12.00  2.40  100  900  0.05  80.00 \
  1200.00  1.33
  &registry->lock  5  [<0000000000000000>] cx_find+0x1/0x2
  &registry->lock/1:  0  0  0.00  0.00 \
  0.00  0.00  0  7  0.05  1.00 \
  2.00  0.28
  &rq->__lock:  1  2  0.10  0.20 \
  0.30  0.15  4  444  0.05  1.00 \
  99.00  0.22
"""


def test_locks_are_those_that_the_patches_add(tmp_path: Path) -> None:
    patch = tmp_path / "0001-a.patch"
    patch.write_text(
        "+\tspin_lock_init(&registry->lock);\n+static DEFINE_MUTEX(cx_mutex);\n"
        "-static DEFINE_SPINLOCK(gone);\n \tmutex_init(&kept->lock);\n"
    )
    assert locks.of_series([patch]) == {"&registry->lock", "cx_mutex"}


def test_locks_are_counted_with_their_subclasses_and_no_others() -> None:
    assert locks.counted(LOCK_STAT, ["&registry->lock"]) == locks.Counts(907, 5)
    assert locks.counted(LOCK_STAT, ["cx_mutex"]) == locks.Counts()


def test_every_run_of_the_program_is_read() -> None:
    line = '{"threads":%d,"reads":100,"ns":2000000000}\n'
    text = f"{line % 1}{LOCK_STAT}  &a{{b}}->c:  1\nend\n{line % 8}end\n"
    found = scaling.runs_of(text, frozenset({"&registry->lock"}))
    assert [(run.threads, run.locks.contentions) for run in found] == [(1, 5), (8, 0)]
    assert found[0].reads_per_second == 50


def test_a_policy_is_judged_by_its_worst_number_of_threads() -> None:
    told = [(1, 100, 10, 0), (8, 800, 400, 3)]
    plain, fifo = (
        [
            scaling.Run(n, reads, seconds, locks.Counts(taken, waited))
            for n, reads, taken, waited in told
        ]
        for seconds in (1.0, 2.0)
    )
    sizes = scaling.Sizes(threads=(1, 8), repeats=1)
    rows = {row.metric: row for row in rows_of({scaling.NO_POLICY: plain, "fifo": fifo}, sizes)}
    assert rows["kernel.scaling.acquisitions_per_hit.fifo"].value == 0.5
    assert rows["kernel.scaling.contended"].value == 3
    assert rows["kernel.scaling.speedup.fifo"].value == 8
    assert f"kernel.scaling.contended.{scaling.NO_POLICY}" not in rows


@pytest.mark.parametrize(
    "name", ["conformance", "kernel_overhead", "kernel_policies", "kernel_scaling"]
)
def test_committed_results_are_rows(name: str) -> None:
    path = Path(__file__).resolve().parents[1] / "experiments" / name / "results.json"
    assert read_results(path)
