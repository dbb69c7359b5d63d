# SPDX-License-Identifier: Apache-2.0
"""Time series of the real loop: what was set, measured and predicted in every interval."""

import json
from pathlib import Path

from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.api.shapes.series import SeriesView
from cachepilot.domain.objectives.objective import Objective
from cachepilot.domain.past.series import EVERY_INTERVAL
from cachepilot.node.series.reading import Range, read_series
from cachepilot.v1 import session_pb2 as wire

SIZES = tuple(MIB * size for size in (16, 64, 128, 256))


def world(path: Path) -> World:
    curves = {"default": linear(512 * MIB), "lfu": linear(200 * MIB)}
    tenants = [PlantTenant("/a", curves, 128 * MIB), PlantTenant("/b", curves, 128 * MIB)]
    return World(path, Plant(tenants, 256 * MIB, SIZES))


def recent(world: World, cgroup: str) -> SeriesView:
    """Return the series over the time for which every interval is kept."""
    since_s = world.plant.time_s - 890
    return world.service.past.series(cgroup, None, since_s, None, 2000)


def test_points_follow_the_node(tmp_path: Path) -> None:
    found = world(tmp_path)
    found.run(5)
    totals = found.plant.of("/a").totals
    totals.refaults_total += 50
    totals.io_stall_us_total += 250_000
    found.run(1)
    series = recent(found, "/a")
    assert series.time_s == [1001.0 + n for n in range(6)]
    assert series.refaults_per_s == [None, 0, 0, 0, 0, 50]
    assert series.io_stall_share[-1] == 0.25
    assert series.throughput_ops[0] is None and (series.throughput_ops[-1] or 0) > 0
    measured, predicted = series.throughput_ops[-1], series.predicted_ops[-1]
    assert measured is not None and predicted is not None
    assert 0.5 < predicted / measured < 2


def test_readahead_is_known_while_the_tenant_has_a_policy_of_its_own(tmp_path: Path) -> None:
    found = world(tmp_path)
    tenant = found.plant.of("/a")
    found.run(1)
    tenant.readahead = wire.Readahead(policy="leap")
    found.run(1)
    for ahead, used, wasted in ((100, 40, 0), (180, 90, 10), (180, 95, 10)):
        pages = wire.Readahead.Pages(ahead_total=ahead, used_total=used, wasted_total=wasted)
        tenant.readahead = wire.Readahead(policy="leap", pages=pages)
        found.run(1)
    assert found.service.tenant("/a", None).tenant.readahead_policy == "leap"
    tenant.readahead = None
    found.run(1)
    series = recent(found, "/a")
    assert series.ahead_pages_per_s == [None, None, None, 80, 0, None]
    assert series.ahead_used_per_s == [None, None, None, 50, 5, None]
    assert series.ahead_wasted_per_s == [None, None, None, 10, 0, None]
    assert found.service.tenant("/a", None).tenant.readahead_policy is None
    assert found.service.tenant("/b", None).tenant.readahead_policy is None


def test_a_change_of_policy_is_seen_where_it_was_made(tmp_path: Path) -> None:
    found = world(tmp_path)
    found.run(60)
    series = recent(found, "/a")
    assert series.policy[0] == "default" and series.policy[-1] == "lfu"
    when = found.plant.swaps[0][0]
    assert series.time_s[series.policy.index("lfu")] == when + 1


def test_listeners_are_notified_of_changes(tmp_path: Path) -> None:
    found = world(tmp_path)
    told: list[tuple[str, str]] = []
    found.service.changes.listen(lambda topic, node: told.append((topic, node)))
    found.run(3)
    assert [one for one in told if one[0] == "node"] == [("node", "plant")] * 3
    found.run(40)
    assert told.count(("decisions", "plant")) >= 1
    found.service.set_objective(Objective("/a"))
    assert told[-1] == ("asked", "")


def test_series_in_memory_are_bounded_and_a_day_consists_of_means(tmp_path: Path) -> None:
    found = world(tmp_path)
    found.run(2)
    seen = found.loop.report
    assert seen is not None
    collected = seen.collected
    one = collected.seen["/a"]
    for step in range(900):
        one.wire.current_bytes = step % 2 * MIB
        snapshot = collected.snapshot.__class__(
            **{**vars(collected.snapshot), "time_s": 2000.0 + step}
        )
        later = collected.__class__(snapshot, collected.seen, 0.0, 0)
        found.loop.series.take(seen.__class__(**{**vars(seen), "collected": later}))
    tail = found.loop.series.tail("/a", EVERY_INTERVAL)
    assert tail is not None
    assert (tail.points, tail.ended_s) == (120, 2899.0)
    day = Range(0.0, 2900.0, 40)
    shown = read_series(found.store, found.loop.series, "plant", "/a", day, 1.0, day.until_s)
    # Of the part that was not stored yet, every point ends a minute.
    times = shown.time_s
    assert times[:2] == [1002, 1501] and times[2:] == [2060 + 60 * n for n in range(14)]
    means = shown.columns["current_bytes"]
    assert all(abs((mean or 0) / MIB - 0.5) < 0.02 for mean in means[2:])


def test_the_day_outlives_a_restart_of_the_controller(tmp_path: Path) -> None:
    found = world(tmp_path)
    found.run(200)
    asked = ("/a", None, 0.0, None, 300)
    before = found.service.past.series(*asked)
    found.loop.end()
    found.restart()
    found.run(1)
    after = found.service.past.series(*asked)
    assert len(before.time_s) >= 3 and after.time_s[: len(before.time_s)] == before.time_s
    assert after.throughput_ops[:3] == before.throughput_ops[:3]


def _readings(series: SeriesView, at: int) -> list[float | None]:
    values = series.model_dump(exclude={"node", "cgroup", "time_s", "policy", "latency"})
    return [column[at] for column in values.values() if isinstance(column, list)]


def test_an_outage_is_not_bridged(tmp_path: Path) -> None:
    found = world(tmp_path)
    found.run(5)
    found.plant.of("/a").totals.refaults_total += 50
    found.plant.time_s += 799
    found.run(2)
    series = recent(found, "/a")
    assert series.time_s == [1001, 1002, 1003, 1004, 1005, 1405, 1805, 1806]
    at = series.time_s.index(1405)
    assert set(_readings(series, at)) == {None} and series.policy[at] == series.policy[at - 1]
    told = json.loads(series.model_dump_json())
    assert told["limit_bytes"][at] is None and told["time_s"][at] == 1405


def test_a_slow_interval_is_no_outage(tmp_path: Path) -> None:
    found = world(tmp_path)
    found.run(2)
    found.plant.time_s += 58
    found.run(1)
    assert recent(found, "/a").time_s == [1001, 1002, 1061]


def test_the_last_minute_of_latencies(tmp_path: Path) -> None:
    found = world(tmp_path)
    tenant = found.plant.of("/a")
    tenant.totals.read_latency_total.extend([1 << 40, 0, (1 << 32) - 100])
    found.run(1)
    assert recent(found, "/a").latency is None
    for _ in range(200):
        tenant.totals.read_latency_total[2] += 7
        found.run(1)
    latency = recent(found, "/a").latency
    assert latency is not None
    assert 60 <= latency.elapsed_s < 80
    assert latency.counts == [0, 0, 7 * latency.elapsed_s]
    assert latency.lower_bounds_us == [1.0, 1.25, 1.5]


def test_a_cgroup_that_is_created_again_starts_a_new_series(tmp_path: Path) -> None:
    found = world(tmp_path)
    found.run(5)
    found.plant.of("/a").cgroup_id = 2
    found.run(1)
    anew, other = recent(found, "/a"), recent(found, "/b")
    assert (anew.refaults_per_s[-1], other.refaults_per_s[-1]) == (None, 0)
    assert len(anew.time_s) == len(other.time_s) == 6


def test_tenants_come_and_go_and_a_node_may_have_none(tmp_path: Path) -> None:
    found = world(tmp_path)
    found.run(3)
    tenants, found.plant.tenants = found.plant.tenants, []
    found.run(2)
    report = found.loop.report
    assert report is not None and not report.collected.seen
    found.plant.tenants = tenants[::-1]
    found.run(4)
    for cgroup in ("/a", "/b"):
        series = recent(found, cgroup)
        assert series.time_s == [1001.0, 1002, 1003, 1006, 1007, 1008, 1009]
        assert series.policy[3] == "default"
        assert series.throughput_ops[3] is None and (series.throughput_ops[4] or 0) > 0
