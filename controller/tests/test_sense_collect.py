# SPDX-License-Identifier: Apache-2.0
"""Snapshots with totals and curves become rates, curves and demands."""

from dataclasses import replace
from functools import partial
from math import isnan

import numpy as np
import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from hypothesis import given
from hypothesis import strategies as st

from cachepilot.domain.objectives.objective import Counter, Indicator, Objective, Objectives
from cachepilot.fleet.scrape import series_value
from cachepilot.node.collector import Collector
from cachepilot.node.shown.slo_windows import SloWindows
from cachepilot.sense.collect import Collected
from cachepilot.sense.counters import NAN, Counters, Totals
from cachepilot.sense.latency import lower_bound_us, quantile_us
from cachepilot.sense.node_scrape import Scrape, ScrapedCounter
from cachepilot.v1 import session_pb2 as wire

SIZES = tuple(MIB * size for size in (16, 64, 128, 256))


def plant(**changes: object) -> Plant:
    tenant = PlantTenant("/a", {"default": linear(512 * MIB)}, 128 * MIB, accesses_per_op=5)
    for name, value in changes.items():
        setattr(tenant, name, value)
    return Plant([tenant], 256 * MIB, SIZES, noise=0.0)


def collect(
    node: Plant, collector: Collector, cycles: int = 1, asked: Objectives | None = None
) -> Collected:
    for _ in range(cycles):
        node.pass_time()
        found = collector.collect(node.snapshot(), 1, asked or Objectives())
        collector.refit()
    return found


def begun(node: Plant) -> Collector:
    found = Collector("n")
    found.begin(node.hello())
    return found


def test_totals_become_rates_and_the_demand_is_learnt() -> None:
    node = plant()
    seen = collect(node, begun(node), 8).seen["/a"]
    tenant = seen.tenant
    assert tenant.indicators.throughput_ops == pytest.approx(node.ops(node.tenants[0]), rel=0.01)
    assert tenant.indicators.miss_ratio == pytest.approx(0.75, abs=0.01)
    assert tenant.demand.accesses_per_op == pytest.approx(5, rel=0.05)
    assert tenant.demand.concurrency == pytest.approx(4, rel=0.01)
    assert tenant.demand.error_pct is not None and tenant.demand.error_pct < 2
    assert tenant.trust.trusted


def test_snapshots_that_are_lost_lose_nothing() -> None:
    node = plant()
    collector = begun(node)
    collect(node, collector)
    for _ in range(7):
        node.pass_time()
    sample = collect(node, collector).seen["/a"].sample
    assert sample is not None and sample.elapsed_s == pytest.approx(8)
    assert sample.ops == pytest.approx(node.ops(node.tenants[0]), rel=0.01)


@pytest.mark.parametrize("says_so", [True, False])
def test_totals_that_restart_are_no_negative_rates(says_so: bool) -> None:
    node = plant()
    collector = begun(node)
    collect(node, collector, 3)
    node.tenants[0].totals.Clear()
    if says_so:
        hello = node.hello()
        hello.incarnation = 2
        node.forget_session()
        collector.begin(hello)
    seen = collect(node, collector).seen["/a"]
    assert seen.sample is None and not seen.tenant.trust.trusted
    seen = collect(node, collector).seen["/a"]
    assert seen.sample is not None and seen.sample.ops > 0


def test_a_cgroup_that_is_created_again_starts_again() -> None:
    node = plant()
    collector = begun(node)
    collect(node, collector, 3)
    node.tenants[0].cgroup_id = 2
    seen = collect(node, collector).seen["/a"]
    assert seen.sample is None and seen.measured is None
    assert "no curves" in seen.tenant.trust.reason


def _scraped(node: Plant, _: Indicator) -> Scrape:
    return Scrape(7.0 * node.time_s, node.time_s)


def test_indicators_are_counted_as_asked() -> None:
    rates = {}
    for indicator in (
        Indicator(),
        Indicator(Counter.ACCESSES),
        Indicator(Counter.BLOCK_READS),
        Indicator(Counter.PROMETHEUS, "http://x", "n"),
    ):
        node = plant()
        collector = Collector("n", partial(_scraped, node))
        collector.begin(node.hello())
        asked = Objectives((Objective("/a", indicator=indicator),))
        window = collect(node, collector, 4, asked).seen["/a"].window
        assert window is not None
        rates[indicator.counter] = window.ops
    calls = rates[Counter.READ_CALLS]
    assert rates[Counter.ACCESSES] == pytest.approx(5 * calls, rel=0.01)
    assert rates[Counter.BLOCK_READS] == pytest.approx(5 * 0.75 * calls, rel=0.01)
    assert rates[Counter.PROMETHEUS] == pytest.approx(7)


@pytest.mark.parametrize("published_s", [1.0, 3.0, 7.0])
def test_an_application_that_publishes_rarely_is_measured_at_its_rate(published_s: float) -> None:
    """Each of the 7 operations a second is so many accesses, whenever the counter is published."""
    node = plant()

    def scraped(_: Indicator) -> Scrape:
        return Scrape(7.0 * published_s * (node.time_s // published_s), node.time_s)

    collector = Collector("n", scraped)
    collector.begin(node.hello())
    indicator = Indicator(Counter.PROMETHEUS, "http://x", "n")
    asked = Objectives((Objective("/a", indicator=indicator),))
    collect(node, collector, 3 * int(published_s), asked)
    accesses_per_op = 5 * node.ops(node.tenants[0]) / 7
    taken = []
    for _ in range(28):
        seen = collect(node, collector, 1, asked).seen["/a"]
        assert seen.window is not None and seen.window.ops == pytest.approx(7, rel=0.01)
        assert seen.window.accesses_per_op == pytest.approx(accesses_per_op, rel=0.01)
        assert seen.tenant.trust.trusted
        if seen.sample is not None:
            taken.append(seen.sample)
    assert len(taken) == 28 // published_s
    for one in taken:
        assert one.ops == pytest.approx(7)
        assert one.elapsed_s == pytest.approx(published_s)
        assert one.accesses == pytest.approx(accesses_per_op * 7 * published_s, rel=0.01)
    assert seen.tenant.demand.accesses_per_op == pytest.approx(accesses_per_op, rel=0.05)


@pytest.mark.parametrize("falls", ["application", "agent"])
def test_a_counter_that_restarts_is_not_compared(falls: str) -> None:
    counter, accesses = ScrapedCounter(), 0.0
    told = []
    for second in range(1, 11):
        accesses += 100
        if falls == "agent" and second == 6:
            accesses = 100.0
        value = second % 6 if falls == "application" else second
        totals = Totals(accesses, 0, NAN, 0, 0, 0)
        counter.take(Scrape(7.0 * value, float(second)), totals, 1.0)
        told.append(counter.ops)
    # Since when it rose is not known of the first rise, which is in the second interval.
    rises = [None, None, 7.0, 7.0, 7.0]
    assert told == rises * 2


def test_operations_during_a_scrape_outage_belong_to_the_outage() -> None:
    counter, told = ScrapedCounter(), []
    for second in range(1, 13):
        found = None if second in (5, 6, 7, 8, 9) else Scrape(7.0 * second, float(second))
        total = counter.take(found, Totals(100.0 * second, 0, NAN, 0, 0, 0), 1.0)
        assert isnan(total) is (found is None)
        told.append(counter.ops)
    assert told == [None, None, 7.0, 7.0, *[None] * 5, 7.0, 7.0, 7.0]


def test_the_whole_time_counts_for_an_application_without_page_accesses() -> None:
    counter, told = ScrapedCounter(), []
    for second in range(1, 13):
        counter.take(Scrape(21.0 * (second // 3), float(second)), Totals(0, 0, NAN, 0, 0, 0), 1.0)
        told.append(counter.ops)
    assert [one for one in told if one is not None] == [7.0] * 3


def test_curves_of_the_page_cache_become_curves_of_the_limit() -> None:
    node = plant(other_bytes=30 * MIB)
    measured = collect(node, begun(node), 2).seen["/a"].measured
    assert measured is not None
    truth = linear(512 * MIB)
    for size in (16 * MIB, 100 * MIB, 256 * MIB):
        assert measured.miss_at("default", size + 30 * MIB) == pytest.approx(truth(size), abs=1e-6)
    assert measured.miss_at("default", 10 * MIB) == 1.0
    assert measured.error_at("default", 10 * MIB) == 0.0
    bars = measured.curves.error_bar
    assert bars is not None and bars.shape == measured.curves.miss_ratio.shape
    assert measured.error_at("default", 256 * MIB) == pytest.approx(float(bars[0, -2]), abs=0.01)
    assert measured.miss_at("lfu", MIB) is None


def test_mapped_pages_in_use_are_beside_what_curves_are_of() -> None:
    node = plant()
    node.pass_time()
    snapshot = node.snapshot()
    plain = begun(node).collect(snapshot, 1, Objectives()).seen["/a"].measured
    snapshot.tenants[0].mapped_bytes = 40 * MIB
    mapped = begun(node).collect(snapshot, 1, Objectives()).seen["/a"].measured
    assert plain is not None and mapped is not None
    for size in (16 * MIB, 100 * MIB):
        now = mapped.miss_at("default", size + 40 * MIB)
        assert now == pytest.approx(plain.miss_at("default", size), abs=1e-6)
    assert mapped.miss_at("default", 20 * MIB) == 1.0


def test_curves_that_contradict_themselves_are_not_trusted() -> None:
    node = plant()
    node.sizes_bytes = (64 * MIB, 16 * MIB, 128 * MIB, 256 * MIB)
    trust = collect(node, begun(node), 2).seen["/a"].tenant.trust
    assert not trust.trusted and "rising" in trust.reason


def test_a_tenant_without_a_limit_has_what_it_holds() -> None:
    node = plant()
    node.pass_time()
    snapshot = node.snapshot()
    told = snapshot.tenants[0]
    told.limit_bytes = told.target_limit_bytes = 0
    told.current_bytes, told.floor_bytes = 5 * MIB + 1, 6 * MIB
    seen = begun(node).collect(snapshot, 1, Objectives()).seen["/a"]
    assert seen.limit_bytes == 5 * MIB + 4096 >= seen.tenant.floor_bytes


def test_the_device_is_learnt_when_it_is_not_known() -> None:
    node = Plant(
        [PlantTenant("/a", {"default": linear(512 * MIB)}, 128 * MIB)], 256 * MIB, SIZES, noise=0
    )
    collector = begun(node)
    for capacity in (1e9, 500.0):
        node.capacity_iops = capacity
        for _ in range(20):
            node.pass_time()
            snapshot = node.snapshot()
            snapshot.device.capacity_iops = snapshot.device.idle_read_us = 0
            device = collector.collect(snapshot, 1, Objectives()).snapshot.device
        assert device.miss_cost_us == pytest.approx(500, rel=0.02)
        assert device.capacity_iops == pytest.approx(1e12 if capacity == 1e9 else 500, rel=0.02)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=80), st.floats(0, 1))
def test_a_quantile_lies_in_its_bucket(counts: list[int], part: float) -> None:
    found = quantile_us(counts, [], part)
    if sum(counts) == 0:
        assert found is None
        return
    assert found is not None
    bucket = int(np.searchsorted(np.cumsum(counts), part * sum(counts)))
    bucket = next(i for i in range(bucket, len(counts)) if counts[i] > 0)
    assert lower_bound_us(bucket) - 1e-9 <= found <= lower_bound_us(bucket + 1) + 1e-9


def test_quantiles_are_of_what_was_counted_between() -> None:
    assert quantile_us([5, 0, 0, 0, 10], [5], 1.0) == pytest.approx(2.5)
    assert quantile_us([4], [5], 0.5) is None


def test_a_series_is_found_by_name_and_labels() -> None:
    body = (
        "# TYPE reads_total counter\n"
        'reads_total{kind="get",cpu="0"} 3\nreads_total{kind="get",cpu="1"} 4\n'
        'reads_total{kind="put",cpu="0"} 9\nother 1\n'
    )
    assert series_value(body, 'reads_total{kind="get"}') == 7
    assert series_value(body, "reads_total") == 16
    assert series_value(body, "other") == 1
    assert series_value(body, "nothing") is None


def test_windows_count_what_was_kept_in_the_last_hour() -> None:
    node = plant()
    collector = begun(node)
    asked = Objectives((Objective("/a", hit_ratio=0.2, throughput_ops=1e9),))
    windows = SloWindows()
    for _ in range(90):
        found = collect(node, collector, 1, asked)
        windows.take(found.time_s, found.seen["/a"], asked.of("/a"))
    assert windows.attainment("/a", "hit_ratio") == 1.0
    assert windows.attainment("/a", "throughput_ops") == 0.0
    assert windows.attainment("/a", "latency_p99_us") is None
    again = SloWindows(windows.changed_minutes())
    assert again.attainment("/a", "hit_ratio") == 1.0


def test_windows_of_before_a_silence_are_none_of_the_last_hour() -> None:
    node = plant()
    collector, windows = begun(node), SloWindows()
    missed = Objectives((Objective("/a", throughput_ops=1e9),))
    for _ in range(5):
        found = collect(node, collector, 1, missed)
        windows.take(found.time_s, found.seen["/a"], missed.of("/a"))
    assert windows.attainment("/a", "throughput_ops") == 0.0
    node.time_s += 2 * 3600
    windows.take_all(replace(collect(node, collector, 2, missed), seen={}), missed)
    assert windows.attainment("/a", "throughput_ops") is None


def test_readahead_counts_when_too_little_is_read_to_see_it() -> None:
    """Each read brings sixteen pages, as it did while more was missed."""
    collector, totals = Collector("n"), wire.Counters()
    collector.begin(wire.Hello(node="n", incarnation=1))
    found = []
    for second in range(1, 61):
        miss = 0.025 if second <= 30 else 0.015
        pages, reads = int(160_000 * miss), int(10_000 * miss)
        totals.accesses_total += 160_000
        totals.misses_total += pages
        totals.block_reads_total += reads
        totals.read_calls_total += 10_000
        totals.read_time_us_total += 10_000 * 50 + reads * 100
        seen = wire.Snapshot(time_us=second * 1_000_000, budget_bytes=256 * MIB)
        seen.device.idle_read_us = 100.0
        told = seen.tenants.add(cgroup="/a", cgroup_id=1, policy="default", limit_bytes=128 * MIB)
        told.counters.CopyFrom(totals)
        found.append(collector.collect(seen, 1, Objectives()).seen["/a"].tenant.demand)
        collector.refit()
    for one in (found[28], found[-1]):
        assert one.accesses_per_op == pytest.approx(1.0, rel=0.1)


def test_read_calls_are_counted_beyond_32_bits() -> None:
    counters, wrap = Counters(), 1 << 32
    for time_s, counts in ((1.0, [wrap + 5, wrap - 3]), (2.0, [wrap + 5, wrap + 40])):
        totals = {"/a": Totals(100 * time_s, 0.0, 10 * time_s, 0.0, 10 * time_s, 1e3)}
        found = counters.take(time_s, totals, [counts], None)
    window = found.windows[0]
    assert window is not None and window.latency_p99_us is not None
    assert lower_bound_us(1) <= window.latency_p99_us <= lower_bound_us(2)


def _seconds(collector: Collector, *told: tuple[int, int | None]) -> list[float | None]:
    """Return the CPUs in use after snapshots a second apart.

    Each snapshot has a cgroup id and its CPU time.
    """
    found = []
    for second, (cgroup_id, cpu_us) in enumerate(told, 1):
        seen = wire.Snapshot(time_us=second * 1_000_000, budget_bytes=256 * MIB, cpus=4)
        one = seen.tenants.add(
            cgroup="/a", cgroup_id=cgroup_id, policy="default", limit_bytes=128 * MIB
        )
        one.counters.accesses_total = one.counters.read_calls_total = second
        if cpu_us is not None:
            one.counters.cpu_time_us_total = cpu_us
        collected = collector.collect(seen, 1, Objectives())
        assert collected.snapshot.node.cpus == 4
        found.append(collected.seen["/a"].tenant.indicators.cpus)
    return found


def test_cpus_are_cpu_time_per_second() -> None:
    second = 1_000_000
    told = [(1, at * 3 * second // 2) for at in range(9)]
    assert _seconds(Collector("n"), *told) == [None, *[pytest.approx(1.5)] * 8]
    anew = [(1, 7 * second), (1, 9 * second), (2, 100), (2, 100 + second // 2)]
    assert _seconds(Collector("n"), *anew) == [None, 2.0, None, 0.5], "another of the name"
    fell = [(1, 7 * second), (1, 9 * second), (1, 0), (1, second)]
    assert _seconds(Collector("n"), *fell) == [None, 2.0, None, 1.0]


def test_cpus_that_an_agent_does_not_report_are_unknown() -> None:
    node = plant()
    found = collect(node, begun(node), 8)
    assert found.snapshot.node.cpus is None
    indicators = found.seen["/a"].tenant.indicators
    assert indicators.cpus is None and indicators.throughput_ops > 0
    came = [(1, None)] * 3 + [(1, at * 1_000_000) for at in range(5, 12)]
    assert _seconds(Collector("n"), *came) == [None] * 8 + [1.0] * 2, "once a window has no gap"
