# SPDX-License-Identifier: Apache-2.0
"""The experiments of the autopilot on simulated nodes: what they play, and how they judge it."""

import os
from dataclasses import replace
from itertools import pairwise

import pytest
from experiments.autopilot_simulated import never_worse, phase, rig, tenants
from experiments.autopilot_simulated.rig import Look, RigError, Run, Setup, Tenant

from cachepilot import agent
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
    # A loop over more pages than fit never hits; of 2,000 pages alike half are there.
    assert runs[0].miss_ratio("/loop", 2.0, 8.0) == pytest.approx(1.0, abs=0.01)
    assert runs[0].miss_ratio("/uniform", 2.0, 8.0) == pytest.approx(0.49, abs=0.03)


def test_throughput_is_taken_between_two_times() -> None:
    run = Run({"/a": [look(float(t), "lru", 10 * t * t) for t in range(10)]})
    assert run.throughput_ops("/a", 2.0, 4.0) == pytest.approx((160 - 40) / 2)
    with pytest.raises(RigError, match="fewer than two looks"):
        run.throughput_ops("/a", 20.0, 30.0)


def test_groups_hold_every_trace_once() -> None:
    found = tenants.traces(None)
    assert len(found) >= 6
    grouped = tenants.groups(found)
    assert sorted(path for group in grouped for path in group) == found
    assert all(1 <= len(group) <= tenants.GROUP for group in grouped)


def test_a_run_can_be_given_the_limits_of_another() -> None:
    try:
        agent.find(os.environ)
    except InputError as error:
        pytest.skip(str(error))
    observed = Objectives((Objective("*", mode=Mode.OBSERVE),))
    limits = [6 << 20 if t < 4 else 2 << 20 for t in range(9)]
    looks = [replace(look(float(t), "lru", t), target_limit_bytes=limits[t]) for t in range(9)]
    other = Run({"/uniform": looks, "/loop": [look(float(t), "lru", t) for t in range(9)]})
    found = rig.play(SMALL, observed, limits_of=other).looks["/uniform"]
    assert [one.target_limit_bytes for one in found[:9]] == [4 << 20, *limits[1:]]


def test_a_tenant_is_compared_by_throughput_and_told_its_mean_limit() -> None:
    run = Run({"/a": [look(float(t), "lru", t) for t in range(10)]})
    assert never_worse._mean_limit(run, "/a", 5.0) == 1 << 20
    worse = never_worse.Compared("/a", "mru", 1 << 20, ops=90.0, default_ops=100.0)
    assert worse.ratio == pytest.approx(0.9)


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
    # 24,000 pages at 6,000 per second are seen after 4 s; the last wrong second is the fifth.
    assert phase.follow(looks) == (1.0, 1)
    never = [look(float(second), "lru", rate * second) for second in range(start, start + 20)]
    assert phase.follow(never) == (None, 0)
