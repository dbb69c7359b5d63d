# SPDX-License-Identifier: Apache-2.0
"""The baselines of the autopilot's gain: policies pinned, followed naively, or in hindsight."""

from pathlib import Path

import numpy as np
import pytest
from experiments.harvest import __main__ as program
from experiments.harvest import guard, loads, pinned
from experiments.harvest.compare import Outcome
from experiments.harvest.loads import Load
from experiments.harvest.pinned import CHUNK, Misses

from cachepilot import _models

LOOP = Load("loop", np.arange(600, dtype=np.uint64), 300)


def outcome(name: str, **ops: float) -> Outcome:
    kinds = ("default", "best", "sequence", "naive", "autopilot")
    return Outcome(
        name, 1, "mru", **{f"{one}_ops": ops.get(one, 100.0) for one in kinds}, changes=2
    )


def test_throughput_is_that_of_a_closed_loop_in_the_second_half() -> None:
    hits = np.zeros(CHUNK, dtype=np.bool_)
    all_hit = pinned.throughput_ops(lambda _: hits, 20.0)
    assert all_hit == pytest.approx(4e6 / 20, rel=1e-3)
    assert pinned.throughput_ops(lambda _: ~hits, 20.0) == pytest.approx(4e6 / 520, rel=1e-3)
    # Only the first chunk misses; it is over before the second half begins.
    late = pinned.throughput_ops(lambda chunk: ~hits if chunk == 0 else hits, 40.0)
    assert late == pytest.approx(all_hit, rel=1e-3)


def test_misses_are_those_of_the_policy_however_often_they_are_asked_for() -> None:
    misses = Misses.of(LOOP, "mru")
    expected = ~_models.simulate_hits(LOOP.chunk(0, 2 * CHUNK), "mru", LOOP.size_pages, batch=32)
    assert misses.count(1) == np.count_nonzero(expected[CHUNK:])
    np.testing.assert_array_equal(misses.get(0), expected[:CHUNK])
    np.testing.assert_array_equal(misses.get(1), expected[CHUNK:])


def test_in_hindsight_every_chunk_has_the_policy_that_misses_least() -> None:
    policies = {name: Misses.of(LOOP, name) for name in ("lru", "mru")}
    best = pinned.best_sequence(policies)
    assert policies["mru"].count(2) < policies["lru"].count(2)
    np.testing.assert_array_equal(best(2), policies["mru"].get(2))


def test_the_naive_rule_swaps_to_the_policy_that_missed_least() -> None:
    policies = {name: Misses.of(LOOP, name) for name in ("lru", "mru")}
    follow = pinned.naive(policies, "lru")
    missed = [int(np.count_nonzero(follow(chunk))) for chunk in range(3)]
    assert missed[0] == CHUNK
    assert missed[2] == pytest.approx(policies["mru"].count(2), rel=0.2)


def test_a_seed_gives_the_same_trace_from_elsewhere_with_other_pages(tmp_path: Path) -> None:
    path = tmp_path / "trace.u64"
    keys = np.tile(np.arange(3000, dtype="<u8"), 2)
    keys.tofile(path)
    first, second = (loads.loads([path], 0.1, seed)[0] for seed in (1, 2))
    assert first.size_pages == second.size_pages == 300
    assert not np.intersect1d(first.keys, second.keys).size
    steps = np.diff(first.keys.astype(np.int64))
    assert set(steps.tolist()) <= {1, -2999}
    first.write(tmp_path / "written.u64")
    written = _models.trace_keys(str(tmp_path / "written.u64"))
    np.testing.assert_array_equal(written, first.keys)
    assert loads.loads([path], 0.05, 1) == []


def test_rows_are_of_all_tenants_and_the_worst_is_of_all_seeds() -> None:
    first = [outcome("a", best=200.0, autopilot=200.0), outcome("b", autopilot=98.0)]
    second = [outcome("a", best=200.0, autopilot=100.0), outcome("b", autopilot=99.0)]
    found = {row.metric: row for row in program.rows(10, [first, second])}
    worst = found["autopilot.harvest.worst.10"]
    assert (worst.value, worst.spread) == (0.98, (0.98, 0.99))
    assert worst.reference is not None
    assert worst.reference.endswith("b")
    share = found["autopilot.harvest.share.10"]
    assert share.spread == pytest.approx((np.log(0.99) / np.log(2), 1 + np.log(0.98) / np.log(2)))
    assert found["autopilot.harvest.changes.10"].value == 2
    default, best = (found[f"autopilot.harvest.{name}.10"] for name in ("default", "best"))
    assert default.value == pytest.approx(100.0)
    assert best.value == pytest.approx(2**0.5)
    assert best.reference_value == pytest.approx(100.0)


def test_requests_are_timed_as_they_are_served() -> None:
    loop = Misses.of(LOOP, "mru")
    last = pinned.served(loop.get, 20.0)
    assert pinned.time_s(loop.get, 0, last) == pytest.approx(20.0, rel=1e-3)
    first = pinned.served(loop.get, 10.0)
    assert first > CHUNK
    assert pinned.time_s(loop.get, first, last) == pytest.approx(10.0, rel=1e-3)
    of_two = pinned.time_s(loop.get, 5, 7) + pinned.time_s(loop.get, 7, CHUNK + 3)
    assert pinned.time_s(loop.get, 5, CHUNK + 3) == pytest.approx(of_two)


def guarded(name: str, seed: int, ops: float, best_ops: float = 100.0) -> guard.Guarded:
    return guard.Guarded(name, seed, 100.0, best_ops, ops)


def test_the_guard_is_held_against_what_the_autopilot_is() -> None:
    first = [guarded("a", 1, 100.0, 200.0), guarded("b", 1, 90.0)]
    second = [guarded("a", 2, 200.0, 200.0), guarded("b", 2, 98.0)]
    found = {row.metric: row for row in guard.rows(3, [first, second])}
    share = found["autopilot.harvest.guard.3"]
    assert share.spread == pytest.approx((np.log(0.9) / np.log(2), 1 + np.log(0.98) / np.log(2)))
    worst = found["autopilot.harvest.guard_worst.3"]
    assert (worst.value, worst.spread) == (0.9, (0.9, 0.98))
    assert (share.goal, worst.goal) == (None, None)


# A checkout as guard_player.py uses it, with the module names of that commit.
CHECKOUT = {
    "experiments/autopilot_simulated/rig.py": """
from types import SimpleNamespace


def Tenant(cgroup, limit_bytes, phases, **others):
    return SimpleNamespace(cgroup=cgroup, limit_bytes=limit_bytes, phases=phases, **others)


def Setup(tenants, budget_bytes, seconds, **others):
    return SimpleNamespace(tenants=tenants, seconds=seconds, **others)


def play(setup, objectives):
    (tenant,), (stated,) = setup.tenants, objectives
    assert setup.read_us == 500.0 and tenant.concurrency == 4
    assert stated["memory_min"] == stated["memory_max"] == tenant.limit_bytes // 4096
    looks = [SimpleNamespace(policy=policy) for policy in ("default", "mru", "mru", "lru")]
    return SimpleNamespace(
        looks={"/tenant": looks}, throughput_ops=lambda cgroup, from_s, to_s: to_s - from_s
    )
""",
    "controller/cachepilot/__init__.py": "",
    "controller/cachepilot/sizes.py": "PAGE_BYTES = 4096\nparse_size = int\n",
    "controller/cachepilot/domain/objectives/objective.py": """
def Objective(pattern, **stated):
    return stated


Objectives = tuple
""",
}


def test_another_checkout_plays_with_its_own_node(tmp_path: Path) -> None:
    for name, text in CHECKOUT.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    told = guard.asked(LOOP, tmp_path / "load.u64", 60.0, 1)
    assert guard.played(tmp_path, told) == {"ops": 30.0, "changes": 2}
    rig = tmp_path / "experiments" / "autopilot_simulated" / "rig.py"
    rig.write_text("def Tenant(*_, **others): raise ValueError('no such device')", "utf-8")
    with pytest.raises(guard.GuardError, match="no such device"):
        guard.played(tmp_path, told)
