# SPDX-License-Identifier: Apache-2.0
"""The autopilot's experiments on simulated nodes: what they play and how they judge it."""

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from experiments.autopilot_simulated import memory, never_worse, phase, qos, rig, tenants
from experiments.autopilot_simulated.rig import Look, RigError, Run, Setup, Tenant

from cachepilot import _models, agent
from cachepilot.domain.objectives.objective import Mode, Objective, Objectives
from cachepilot.errors import InputError

SMALL = Setup(
    [
        Tenant("/loop", 4 << 20, [{"source": {"kind": "loop", "pages": 1500}}]),
        Tenant("/uniform", 4 << 20, [{"source": {"kind": "uniform", "pages": 2000}}]),
    ],
    8 << 20,
    seconds=8.0,
)


def look(time_s: float, policy: str, accesses: int) -> Look:
    return Look(time_s, policy, 1 << 20, 1 << 20, accesses, accesses, accesses // 2, True)


def test_a_node_is_played_to_its_end_and_the_same_twice() -> None:
    try:
        agent.find(os.environ)
    except InputError as error:
        pytest.skip(str(error))
    observed = Objectives((Objective("*", mode=Mode.OBSERVE),))
    runs = [rig.play(SMALL, observed) for _ in range(2)]
    for run in runs:
        assert sorted(run.looks) == ["/loop", "/uniform"]
        times = [one.time_s for one in run.looks["/loop"]]
        assert times[0] == 0.0
        assert times[-1] >= SMALL.seconds
        assert all(later - earlier == pytest.approx(1.0) for earlier, later in pairwise(times))
    assert runs[0].looks["/loop"][:9] == runs[1].looks["/loop"][:9]
    # A loop over more pages than fit never hits; of 2,000 equally likely pages half are cached.
    assert runs[0].miss_ratio("/loop", 2.0, 8.0) == pytest.approx(1.0, abs=0.01)
    assert runs[0].miss_ratio("/uniform", 2.0, 8.0) == pytest.approx(0.49, abs=0.03)


def test_throughput_is_taken_between_two_times() -> None:
    run = Run({"/a": [look(float(t), "lru", 10 * t * t) for t in range(10)]})
    assert run.throughput_ops("/a", 2.0, 4.0) == pytest.approx((160 - 40) / 2)
    with pytest.raises(RigError, match="fewer than two observations"):
        run.throughput_ops("/a", 20.0, 30.0)


def test_groups_hold_every_trace_once() -> None:
    found = tenants.traces(None)
    assert len(found) >= 6
    grouped = tenants.groups(found)
    assert sorted(path for group in grouped for path in group) == found
    assert all(1 <= len(group) <= tenants.GROUP for group in grouped)


def small_traces(folder: Path) -> list[Path]:
    """Write two traces of loops: one fits in the tenant's memory, the other does not."""
    paths = []
    for name, pages in (("small", 300), ("large", 6000)):
        path = folder / f"{name}.u64"
        np.tile(np.arange(pages, dtype="<u8"), 3).tofile(path)
        paths.append(path)
    return paths


def test_a_tenant_replays_its_trace_from_elsewhere_with_every_seed(tmp_path: Path) -> None:
    small, large = small_traces(tmp_path)
    read = tmp_path / "read"
    read.mkdir()
    tenant = tenants.replayed(large, 1, read, 20.0)
    assert tenant.limit_bytes == 900 * 4096
    assert tenants.replayed(small, 1, read, 20.0).limit_bytes == 512 * 4096
    path = Path(tenant.phases[0]["source"]["path"])
    first = _models.trace_keys(str(path))
    tenants.replayed(large, 2, read, 20.0)
    second = _models.trace_keys(str(path))
    assert first.size == second.size == 18_000
    assert not np.intersect1d(first, second).size
    assert set(np.diff(first.astype(np.int64)).tolist()) == {1, -5999}


def test_memory_that_stays_is_all_that_a_tenant_may_have() -> None:
    asked = never_worse.stays(SMALL.tenants)
    for one in SMALL.tenants:
        stated = asked.of(one.cgroup)
        assert stated.mode is Mode.AUTO
        assert stated.memory_min == stated.memory_max
        assert stated.memory_min is not None
        assert (stated.memory_min.pages or 0) * 4096 == one.limit_bytes
    free = never_worse.moves(SMALL.tenants).of("/loop")
    assert (free.mode, free.memory_min, free.memory_max) == (Mode.AUTO, None, None)
    assert {"fixed": 0.98, "moves": free.keep} == never_worse.GOALS


def compared(device: str, way: str, seed: int, ops: float) -> never_worse.Compared:
    job = never_worse.Job((), device, seed, 60.0)
    return never_worse.Compared(job, f"/t{seed}", way, "mru", 1 << 20, ops, default_ops=100.0)


def test_the_goal_of_never_worse_stands_on_the_worst_of_all_tenants_and_seeds() -> None:
    found = [
        compared(device, way, seed, ops)
        for device in never_worse.DEVICES
        for way in never_worse.WAYS
        for seed, ops in ((1, 120.0), (2, 110.0), (3, 100.0))
    ]
    found.append(compared("misses", "fixed", 4, 97.0))
    rows = {row.metric: row for row in never_worse.rows(found)}
    worst = rows["autopilot.neverworse.misses.fixed.worst"]
    assert worst.value == pytest.approx(0.97)
    assert (worst.goal, worst.runs) == (0.98, 4)
    assert worst.reference is not None
    assert worst.reference.endswith("/t4, seed 4")
    assert rows["autopilot.neverworse.misses.fixed"].goal is None
    assert rows["autopilot.neverworse.misses.fixed"].value == pytest.approx(1.05)
    assert rows["autopilot.neverworse.processors.moves.worst"].value == pytest.approx(1.0)
    assert rows["autopilot.neverworse.processors.moves.worst"].goal == 0.9
    assert len(rows) == 8


def test_a_node_is_compared_with_the_default_at_its_first_memory(tmp_path: Path) -> None:
    try:
        agent.find(os.environ)
    except InputError as error:
        pytest.skip(str(error))
    job = never_worse.Job(small_traces(tmp_path), "misses", 1, 10.0)
    found = {(one.cgroup, one.way): one for one in never_worse.compare(job)}
    assert len(found) == 4
    for way in never_worse.WAYS:
        # 300 pages fit in 512, so neither a policy nor memory can improve on that.
        assert found["/small", way].ratio == pytest.approx(1.0, abs=0.01)
        assert found["/large", way].default_ops == pytest.approx(4e6 / 520, rel=0.02)
    assert found["/large", "fixed"].limit_bytes == 900 * 4096


def test_a_change_is_followed_from_when_the_new_pages_were_seen_once() -> None:
    good = sorted(phase.good_policies())
    assert "mru" in good
    assert "lru" not in good
    start, rate = int(phase.CHANGE_S), 6000
    names = {start + 5: "lru", start + 6: good[0]}
    policy, looks = "default", []
    for second in range(start, start + 20):
        policy = names.get(second, policy)
        looks.append(look(float(second), policy, rate * second))
    # 24,000 pages at 6,000 per second take 4 s; the last wrong second is the fifth.
    assert phase.follow(looks) == (1.0, 1)
    never = [look(float(second), "lru", rate * second) for second in range(start, start + 20)]
    assert phase.follow(never) == (None, 0)


def test_the_goals_of_a_change_of_phase_stand_on_the_worst_seed() -> None:
    rows = {row.metric: row for row in phase.rows([(0.0, 0), (3.0, 0), (1.0, 2)])}
    intervals = rows["autopilot.phase.intervals.worst"]
    assert (intervals.value, intervals.goal, intervals.runs) == (3.0, 2.0, 3)
    assert rows["autopilot.phase.intervals"].value == 1.0
    assert rows["autopilot.phase.wrong_swaps.worst"].value == 2.0
    assert rows["autopilot.phase.wrong_swaps.worst"].goal == 0.0
    never = phase.rows([(None, 0)])
    assert never[0].value == phase.SECONDS - phase.CHANGE_S


def test_memory_is_compared_with_both_allocators_seed_by_seed() -> None:
    found = {"static": [10.0, 20.0], "annealing": [20.0, 30.0], "optimal": [20.0, 36.0]}
    rows = {row.metric: row for row in memory.rows(found)}
    static = rows["autopilot.simulated.memory.vs_static"]
    assert static.spread == pytest.approx((1.8, 2.0))
    assert static.goal == 1.99
    assert rows["autopilot.simulated.memory.vs_annealing"].value == pytest.approx(1.1)


def test_slos_are_judged_by_the_worst_seed() -> None:
    found = [qos.Outcome(1, 100.0, 110.0, 100.0, 100.0), qos.Outcome(2, 97.0, 99.0, 99.0, 100.0)]
    rows = {row.metric.removeprefix("autopilot.simulated.qos_"): row for row in qos.rows(found)}
    assert (rows["windows_met_pct.worst"].value, rows["windows_met_pct.worst"].goal) == (97.0, 98.0)
    assert rows["attainable_error_pct.worst"].value == pytest.approx(10.0)
    assert rows["infeasible_named_pct.worst"].value == 99.0
