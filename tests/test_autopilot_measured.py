# SPDX-License-Identifier: Apache-2.0
"""Evaluation of runs in the virtual machine: rates, windows and rows; and a short run itself."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from experiments.autopilot.measured import __main__ as command
from experiments.autopilot.measured import demo, isolation, memory, qos, record, running, series
from experiments.autopilot.measured.world import World

from cachepilot.domain.objectives.file import parse_objectives
from cachepilot.domain.objectives.objective import Mode
from cachepilot.results import read_results

BEGIN_S = 1e9
MIB = 1 << 20


def test_a_total_is_linear_between_samples_and_unknown_outside() -> None:
    totals = [(0.0, 0.0), (2.0, 10.0), (4.0, 10.0)]
    assert series.total_at(totals, 1.0) == 5
    assert series.total_at(totals, 4.0) == 10
    assert series.rate(totals, 1.0, 3.0) == pytest.approx(2.5)
    for outside in (-0.1, 4.1):
        with pytest.raises(ValueError, match="no samples around"):
            series.total_at(totals, outside)
    with pytest.raises(ValueError, match="no samples around"):
        series.total_at([], 0.0)


def test_windows_are_those_wholly_inside() -> None:
    totals = [(0.0, 0.0), (1.0, 5.0), (2.0, 7.0), (3.5, 10.0)]
    assert series.rates(totals, 0.5, 3.5) == [2.0, 2.0]
    assert series.rates(totals, 0.0, 2.0) == [5.0, 2.0]
    assert series.share_met([5.0, 2.0, 2.0], 2.0) == 1
    assert series.share_met([5.0, 2.0, 2.0], 2.1) == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="no windows"):
        series.share_met([], 1.0)


def test_unknown_values_are_no_part_of_a_mean() -> None:
    samples = [(0.0, 9.0), (1.0, None), (2.0, 3.0), (3.0, 5.0)]
    assert series.mean(samples, 1.0, 3.0) == 4
    with pytest.raises(ValueError, match="no samples from"):
        series.mean(samples, 1.0, 1.5)


def test_the_output_of_programs_becomes_totals() -> None:
    lines = [
        "a warning that is no JSON",
        '{"at":"second","seconds":1.0,"operations":5}',
        '{"at":"second","seconds":2.1,"operations":7}',
        '{"at":"end","seconds":2.2,"operations":13}',
    ]
    totals = record.ycsb_totals("\n".join(lines), BEGIN_S)
    assert totals == [(BEGIN_S, 0), (BEGIN_S + 1, 5), (BEGIN_S + 2.1, 12)]
    passes = record.pass_totals("1000000003.5\nrg: oops\n1000000005.0\n", BEGIN_S)
    assert passes == [(BEGIN_S, 0), (BEGIN_S + 3.5, 1), (BEGIN_S + 5, 2)]


def side(seconds: int, rates: dict[str, float], **looks: Any) -> dict[str, Any]:
    """Return a side whose tenants do so many operations in every second."""

    def look(second: int, ops: float) -> dict[str, Any]:
        return {
            "time_s": BEGIN_S + second,
            "throughput_ops": ops,
            "device_iops": 100.0,
            "policy": "lfu" if second > 20 else "default",
            "limit_bytes": 12 * MIB,
            "floor_bytes": 8 * MIB,
            "slos": [],
            **looks,
        }

    return {
        "begin_s": BEGIN_S,
        "seconds": seconds,
        "window_s": 30.0,
        "operations": {
            name: [[BEGIN_S + i, i * ops] for i in range(seconds + 1)]
            for name, ops in rates.items()
        },
        "looks": {name: [look(i, ops) for i in range(seconds)] for name, ops in rates.items()},
    }


def run_of(experiment: str, sides: dict[str, dict[str, Any]]) -> record.Run:
    return record.Run(
        {
            "experiment": experiment,
            "commit": "c",
            "machine": "m",
            "world": {"iops": 200},
            "load": [[BEGIN_S, 4.0, 3.0, 2.0]],
            "sides": sides,
        }
    )


def values(rows: list[Any]) -> dict[str, float]:
    return {row.metric.removeprefix("autopilot."): row.value for row in rows}


def isolated(ycsb: float) -> record.Run:
    sides = {
        "default": side(60, {"ycsb": 100.0, "search": 200.0}),
        "tailored": side(60, {"ycsb": 160.0, "search": 500.0}),
        "autopilot": side(60, {"ycsb": ycsb, "search": 490.0}),
    }
    return run_of("isolation", sides)


def test_isolation_is_the_median_of_ratios_within_each_run() -> None:
    rows = isolation.rows([isolated(ycsb) for ycsb in (150.0, 144.0, 160.0)])
    found = values(rows)
    assert found["isolation.ycsb_vs_tailored"] == pytest.approx(150 / 160)
    assert found["isolation.ycsb_gain_pct"] == pytest.approx(50)
    assert found["isolation.search_vs_tailored"] == pytest.approx(0.98)
    assert found["isolation.search_gain_pct"] == pytest.approx(145)
    assert found["isolation.seconds_to_policies"] == 21
    assert {row.runs for row in rows} == {3}
    assert next(r for r in rows if r.metric.endswith("ycsb_gain_pct")).spread == pytest.approx(
        (44.0, 60.0)
    )


def test_memory_sums_tenants_and_looks_at_every_limit() -> None:
    sides = {
        name: side(60, dict.fromkeys(memory.TENANTS, ops))
        for name, ops in (("static", 100.0), ("annealing", 150.0), ("optimal", 180.0))
    }
    sides["annealing"]["looks"]["zipf09"][7]["limit_bytes"] = 6 * MIB
    found = values(memory.rows([run_of("memory", sides)]))
    assert found["memory.vs_static"] == pytest.approx(1.8)
    assert found["memory.vs_annealing"] == pytest.approx(1.2)
    assert found["memory.limit_over_floor"] == pytest.approx(0.75)


def with_slos(attainable: float, state: str) -> record.Run:
    rates = {"zipf09": 500.0, "zipf06": 300.0, "uniform": 90.0}
    told = [{"state": state, "attainable_ops": attainable}]
    sides = {name: side(60, rates) for name in qos.KEPT} | {"beyond": side(60, rates, slos=told)}
    # One window of one SLO is too slow.
    series_of = sides["one"]["operations"]["zipf06"]
    for point in series_of[50:]:
        point[1] -= 290.0
    return run_of("qos", sides)


def test_windows_of_all_slos_count_alike() -> None:
    found = values(qos.rows([with_slos(99.0, "unattainable")]))
    windows = 3 * 30
    assert found["qos.windows_met_pct"] == pytest.approx(100 * (windows - 1) / windows, abs=0.05)
    assert found["qos.attainable_error_pct"] == pytest.approx(10)
    assert found["qos.infeasible_named_pct"] == 100
    assert values(qos.rows([with_slos(99.0, "met")]))["qos.infeasible_named_pct"] == 0


def shown(**ops: tuple[float, float]) -> record.Run:
    """Return a demonstration from the operations per second of each tenant under the autopilot.

    Each tenant has one value per window. Under the default every tenant does 100 op/s.
    """

    def row(window: int, tenant: str, after: float) -> dict[str, Any]:
        slo = 700.0 if tenant == "lookups" else None
        met = {"default": 0.0, "autopilot": 0.97 - 0.05 * window}
        sides = {
            side: {"throughput_ops": value, "slo_met": met[side] if slo else None}
            for side, value in (("default", 100.0), ("autopilot", after))
        }
        return {"window": window, "tenant": tenant, "slo_ops": slo, **sides}

    rows = [row(half, name, found[half]) for name, found in ops.items() for half in (0, 1)]
    document = {"experiment": "demo", "commit": "c", "machine": "m", "rows": rows}
    return record.Run(document | {"load": [[BEGIN_S, 4.0, 3.0, 2.0]], "world": {}})


def test_the_demonstration_is_judged_by_its_worse_half_and_its_worst_run() -> None:
    good = shown(lookups=(200.0, 200.0), batch=(95.0, 100.0), search=(100.0, 100.0))
    bad = shown(lookups=(50.0, 100.0), batch=(80.0, 100.0), search=(100.0, 400.0))
    found = {row.metric.removeprefix("autopilot.demo."): row for row in demo.rows([good, bad])}
    assert found["slo_windows_pct.worst"].value == pytest.approx(92.0)
    assert found["slo_windows_pct.worst"].goal == 95.0
    # The tenant with the SLO is not one whose share is compared.
    assert found["keep_min.worst"].value == pytest.approx(0.8)
    assert found["keep_min"].value == pytest.approx((0.95 + 0.8) / 2)
    assert found["sum_log.worst"].value == pytest.approx(math.log(0.5 * 0.8 * 4))
    assert found["sum_log.worst"].goal == 0.0


def test_a_demonstration_has_no_sides_that_say_how_busy_the_disk_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "FOLDER", tmp_path / "runs")
    quiet = shown(lookups=(200.0, 200.0), batch=(95.0, 100.0))
    record.write(quiet.document, 1)
    assert {row.runs for row in command.collect(tmp_path)} == {1}
    quiet.document["load"][0][1] = 9.0
    assert quiet.is_starved


def test_runs_are_five_but_for_the_demonstration(monkeypatch: pytest.MonkeyPatch) -> None:
    for what, runs in (("memory", 5), ("isolation", 5), ("qos", 5), ("demo", 3)):
        monkeypatch.setattr(sys, "argv", ["measure", what])
        assert command._arguments().runs == runs
    monkeypatch.setattr(sys, "argv", ["measure", "demo", "--runs", "1"])
    assert command._arguments().runs == 1


def test_collecting_counts_the_runs_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "FOLDER", tmp_path / "runs")
    assert command.collect(tmp_path) == []
    assert not (tmp_path / "results.json").exists()
    for number, ycsb in enumerate((150.0, 144.0), start=1):
        record.write(isolated(ycsb).document, number)
    command.collect(tmp_path)
    results = {one.metric: one for one in read_results(tmp_path / "results.json")}
    assert len(results) == 10
    worst = results["autopilot.isolation.ycsb_vs_tailored.worst"]
    assert worst.value == pytest.approx(144 / 160)
    assert worst.goal == 0.95
    assert results["autopilot.isolation.ycsb_vs_tailored"].goal is None
    assert {one.runs for one in results.values()} == {2}
    assert results["autopilot.isolation.ycsb_gain_pct"].command.endswith("isolation --runs 2")
    assert "isolation.search_gain_pct" in (tmp_path / "table.md").read_text()


def test_a_run_on_a_host_that_was_busy_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "FOLDER", tmp_path / "runs")
    starved = isolated(150.0)
    for look in starved.looks("default", "search"):
        look["device_iops"] = 50.0  # type: ignore[index]
    assert isolated(150.0).disk_share("default") == pytest.approx(1)
    assert starved.disk_share("default") == pytest.approx(0.75)
    crowded = isolated(150.0)
    assert not crowded.is_starved
    crowded.document["load"].append([BEGIN_S + 20, 13.0, 9.0, 5.0])
    assert crowded.is_starved
    record.write(starved.document, 1)
    assert command.collect(tmp_path) == []
    record.write(isolated(150.0).document, 2)
    assert {row.runs for row in command.collect(tmp_path)} == {1}


@pytest.mark.parametrize("build", [isolation.world, memory.world, qos.world])
def test_worlds_are_equal_at_first_and_only_steered_sides_are_steered(build: Any) -> None:
    world: World = build()
    assert world.limit_bytes * len(world.tenants) <= world.budget_bytes
    for one in world.sides:
        assert 0 < one.window_s < one.seconds
        stated = parse_objectives(one.objectives, one.name)
        for tenant in world.tenants:
            mode = stated.of(f"/{one.name}/{tenant.name}").mode
            steered = one.name not in ("default", "tailored", "static")
            assert mode is (Mode.AUTO if steered else Mode.OBSERVE)
    told = (running.SCRIPT).read_text()
    for name in ("TENANTS", "SIDES", "LIMIT_BYTES", "RECORDS", "SOURCES", "OUT", "AGENT", "YCSB"):
        assert f"${name}" in told or f'"${name}/' in told


@pytest.mark.long
def test_a_short_run_in_the_machine_keeps_samples_of_every_side(tmp_path: Path) -> None:
    world = isolation.world()
    sides = tuple(replace(one, seconds=20, window_s=10.0) for one in world.sides)
    document = running.run(replace(world, sides=sides, records=8_000))
    found = record.Run(json.loads(json.dumps(document)))
    for one in sides:
        assert found.ops(one.name, "ycsb") > 0
        assert found.reads(one.name, "search") > 0
        assert found.looks(one.name, "search")[-1]["limit_bytes"] <= world.limit_bytes
    assert found.looks("tailored", "search")[-1]["policy"] == "mru"
    assert found.looks("default", "search")[-1]["policy"] == "default"
    assert document["load"]
