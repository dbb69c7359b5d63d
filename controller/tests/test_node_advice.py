# SPDX-License-Identifier: Apache-2.0
"""Recommendations in virtual time, on a node whose curves and throughputs scatter."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from experiments.control_loop.plant import MIB, Curve, Plant, PlantTenant, linear, power, scan
from experiments.control_loop.world import World

from cachepilot.api.shapes.questions import Pin
from cachepilot.api.shapes.views import RecommendationView
from cachepilot.domain.decisions import Event
from cachepilot.domain.objectives.objective import Mode, Objective, Objectives
from cachepilot.sizes import parse_size

SIZES = tuple(MIB * size for size in (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512))
ERROR, LASTS_S = 0.01, 20.0
"""The standard deviation of the curves' errors, and their duration in seconds."""
TEN_MINUTES = 600


class Noisy:
    """A world whose curves have lasting errors, which differ by policy and size."""

    def __init__(self, path: Path, mode: Mode, seed: int, *more: Objective) -> None:
        self.truth: dict[str, dict[str, Curve]] = {
            "/hungry": {"default": linear(400 * MIB), "lfu": linear(380 * MIB)},
            "/scan": {"default": scan(200 * MIB), "mru": linear(200 * MIB)},
            "/sated": {"default": linear(24 * MIB, 0.02), "lfu": linear(24 * MIB, 0.02)},
            "/tail": {"default": power(16 * MIB, 0.6), "lfu": power(16 * MIB, 0.9)},
        }
        tenants = [
            PlantTenant(name, dict(curves), 128 * MIB, threads=4, error_bar=2 * ERROR)
            for name, curves in self.truth.items()
        ]
        plant = Plant(tenants, 512 * MIB, SIZES, noise=0.05, seed=seed)
        self.world = World(path, plant, (*more, Objective("*", mode=mode)))
        self._random = np.random.default_rng(seed)
        rows = sum(len(curves) for curves in self.truth.values())
        self._errors = ERROR * self._random.standard_normal((rows, len(SIZES)))

    def run(self, cycles: int) -> None:
        """Run so many intervals of a second, with new errors of the curves in each."""
        keep = np.exp(-1 / LASTS_S)
        for _ in range(cycles):
            fresh = self._random.standard_normal(self._errors.shape)
            self._errors = keep * self._errors + ERROR * np.sqrt(1 - keep**2) * fresh
            rows = iter(self._errors)
            for one in self.world.plant.tenants:
                one.told = {
                    name: off(curve, next(rows)) for name, curve in self.truth[one.cgroup].items()
                }
                one.generation += 1
            self.world.run(1)

    def ops(self, cgroup: str, policy: str, limit_bytes: int) -> float:
        """Return the true throughput of a tenant with this setting."""
        one = self.world.plant.of(cgroup)
        miss = self.truth[cgroup][policy](limit_bytes)
        return 1e6 * one.threads / (one.service_us + one.accesses_per_op * miss * 500.0)


def off(curve: Curve, errors: np.ndarray) -> Curve:
    """Return a curve with these errors at SIZES, bounded to between 0 and 1."""
    return lambda size: float(np.clip(curve(size) + np.interp(size, SIZES, errors), 0.0, 1.0))


def test_recommendations_are_few_bounded_and_what_auto_reaches(tmp_path: Path) -> None:
    """With this seed there are 10 changes in ten minutes, at most three of one tenant.

    Every tenant would have at least 85% of the throughput that mode `auto` gives it. The
    geometric mean over all tenants would be within 5%.
    """
    (tmp_path / "told").mkdir()
    (tmp_path / "done").mkdir()
    told = Noisy(tmp_path / "told", Mode.RECOMMEND, 1)
    done = Noisy(tmp_path / "done", Mode.AUTO, 1)
    for _ in range(TEN_MINUTES // 10):
        told.run(10)
        done.run(10)
        for one in recommended(told).values():
            assert one.lower_bytes <= one.limit_bytes <= one.upper_bytes <= 512 * MIB
            assert one.throughput_low_ops <= one.throughput_ops <= one.throughput_high_ops
            assert one.confidence is None or 0 <= one.confidence <= 1
    history = told.world.service.history(limit=1000)
    assert {one.event for one in history} == {Event.RECOMMENDED}
    counts = Counter(one.cgroup for one in history)
    assert max(counts.values()) <= 4 and counts.total() <= 12, counts
    assert told.world.plant.swaps == []
    ratios = []
    for name, one in recommended(told).items():
        there = done.world.plant.of(name)
        auto = done.ops(name, there.policy, there.limit_bytes)
        ratios.append(told.ops(name, one.policy, one.limit_bytes) / auto)
        assert ratios[-1] >= 0.85, (name, one, there)
    assert len(ratios) == 4
    assert abs(np.log(ratios).mean()) < 0.05, ratios


def test_bounds_of_recommendations_hold_the_throughput_of_intervals(tmp_path: Path) -> None:
    """Although curves are wrong, and differently so in each interval."""
    held, scattered = [], np.random.default_rng(7)
    for seed in range(1, 5):
        (tmp_path / str(seed)).mkdir()
        here = Noisy(tmp_path / str(seed), Mode.RECOMMEND, seed)
        here.run(60)
        for _ in range(12):
            here.run(10)
            for name, one in recommended(here).items():
                ops = here.ops(name, one.policy, one.limit_bytes)
                ops *= np.exp(0.05 * scattered.standard_normal())
                held.append(one.throughput_low_ops <= ops <= one.throughput_high_ops)
    assert np.mean(held) >= 0.92, (np.mean(held), len(held))


def recommended(here: Noisy) -> dict[str, RecommendationView]:
    rows = here.world.service.tenants()
    return {one.cgroup: one.recommendation for one in rows if one.recommendation is not None}


def quiet(path: Path, *objectives: Objective) -> World:
    """Return a world of two tenants with correct curves, one of which has much to gain."""
    hungry = PlantTenant("/hungry", {"default": linear(400 * MIB)}, 128 * MIB, threads=64)
    sated = PlantTenant("/sated", {"default": linear(16 * MIB, 0.02)}, 128 * MIB)
    return World(path, Plant([hungry, sated], 256 * MIB, SIZES), objectives)


def test_a_recommendation_outlives_a_restart_and_goes_with_its_mode(tmp_path: Path) -> None:
    world = quiet(tmp_path, Objective("*", mode=Mode.RECOMMEND))
    world.run(60)
    before = {one.cgroup: one.recommendation for one in world.service.tenants()}
    told = len(world.service.history())
    assert told == 2 and all(one is not None and one.since_s for one in before.values())
    world.restart()
    world.run(60)
    assert len(world.service.history()) == told
    for row in world.service.tenants():
        now, then = row.recommendation, before[row.cgroup]
        assert now is not None and then is not None
        assert (now.limit_bytes, now.since_s) == (then.limit_bytes, then.since_s)
    world.service.set_objectives(Objectives((Objective("*", mode=Mode.OBSERVE),)))
    world.run(2)
    assert [one.recommendation for one in world.service.tenants()] == [None, None]


def test_memory_for_an_slo_is_recommended_although_the_goal_loses(tmp_path: Path) -> None:
    stated = Objective("/sated", mode=Mode.RECOMMEND)
    slo = Objective("/hungry", hit_ratio=0.45, mode=Mode.RECOMMEND)
    world = quiet(tmp_path, slo, stated)
    world.run(120)
    one = world.service.tenant("/hungry").tenant.recommendation
    assert one is not None
    assert one.limit_bytes >= 0.45 * 400 * MIB
    assert one.at_least_ops is not None and one.throughput_ops >= one.at_least_ops
    assert world.plant.of("/hungry").limit_bytes == 128 * MIB


def test_bounds_that_an_operator_states_are_kept_at_once(tmp_path: Path) -> None:
    world = quiet(tmp_path, Objective("*", mode=Mode.RECOMMEND))
    world.run(60)
    capped = Objective("/hungry", mode=Mode.RECOMMEND, memory_max=parse_size("140MiB"))
    world.service.set_objectives(Objectives((capped, Objective("*", mode=Mode.RECOMMEND))))
    world.run(2)
    one = world.service.tenant("/hungry").tenant.recommendation
    assert one is not None and one.limit_bytes <= 140 * MIB >= one.upper_bytes


def test_a_recommendation_stays_beside_tenants_in_mode_auto(tmp_path: Path) -> None:
    world = quiet(tmp_path, Objective("/hungry", mode=Mode.RECOMMEND), Objective("*"))
    world.run(200)
    told = world.service.history("/hungry")
    assert len(told) <= 2 and {one.event for one in told} <= {Event.RECOMMENDED}
    one = world.service.tenant("/hungry").tenant.recommendation
    assert one is not None and one.limit_bytes > 140 * MIB
    assert world.service.tenant("/sated").tenant.recommendation is None


@pytest.mark.parametrize("is_pinned", [False, True])
def test_recommendations_change_when_a_tenant_is_pinned_or_leaves_the_mode(
    tmp_path: Path, is_pinned: bool
) -> None:
    world = quiet(tmp_path, Objective("*", mode=Mode.RECOMMEND))
    world.run(60)
    before = world.service.tenant("/hungry").tenant.recommendation
    assert before is not None and before.limit_bytes > 180 * MIB
    if is_pinned:
        world.service.pin(Pin(cgroup="/sated", limit_bytes=128 * MIB))
    else:
        world.service.set_objective(Objective("/sated", mode=Mode.OBSERVE))
    world.run(60)
    found = world.service.tenant("/hungry").tenant.recommendation
    assert found is not None and found.limit_bytes <= 128 * MIB
