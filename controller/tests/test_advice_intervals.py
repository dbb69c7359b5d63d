# SPDX-License-Identifier: Apache-2.0
"""Bounds of recommended throughputs hold what intervals do with the recommendations in force."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
from experiments.control_loop.plant import (
    MIB,
    Curve,
    Plant,
    PlantTenant,
    flat,
    linear,
    power,
    scan,
)
from experiments.control_loop.world import World

from cachepilot.api.shapes.views import RecommendationView
from cachepilot.domain.objectives.objective import Mode, Objective
from cachepilot.node.shown.readings import done_ops
from cachepilot.sense.collect import Seen
from cachepilot.sizes import PAGE_BYTES, parse_size
from cachepilot.v1 import session_pb2 as wire

SIZES = tuple(MIB * size for size in (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512))
LEVEL, ERROR = 0.02, 0.01
"""Standard deviations of a curve's errors: of its level, and at each size."""
LEARNS_S, SETTLES_S, MEASURED_S = 120, 20, 20
NODES = 20


def off(curve: Curve, level: float, errors: np.ndarray) -> Curve:
    """Return a curve with these errors, bounded to between 0 and 1."""
    return lambda size: float(
        np.clip(curve(size) + level + np.interp(size, SIZES, errors), 0.0, 1.0)
    )


def node(seed: int) -> Plant:
    """Return a node whose tenants differ by seed. Every second one has a busy device."""
    random = np.random.default_rng(seed)
    truth: dict[str, dict[str, Curve]] = {
        "/hungry": {"default": linear(int(random.integers(300, 500)) * MIB)},
        "/scan": {"default": scan(200 * MIB), "mru": linear(int(random.integers(150, 300)) * MIB)},
        "/sated": {"default": linear(int(random.integers(16, 48)) * MIB, 0.02)},
        "/tail": {"default": power(16 * MIB, 0.6), "lfu": power(16 * MIB, 0.9)},
    }
    tenants = []
    for name, curves in truth.items():
        level = LEVEL * random.standard_normal()
        told = {
            policy: off(curve, level, ERROR * random.standard_normal(len(SIZES)))
            for policy, curve in curves.items()
        }
        tenants.append(
            PlantTenant(
                name,
                curves,
                128 * MIB,
                told=told,
                threads=4,
                error_bar=2 * (LEVEL + ERROR),
                service_us=float(random.uniform(20, 200)),
                waits=flat(float(random.uniform(0.6, 1.0))),
            )
        )
    capacity = 1e9 if seed % 2 else 8000.0
    noise = float(random.uniform(0.005, 0.06))
    return Plant(tenants, 512 * MIB, SIZES, capacity_iops=capacity, noise=noise, seed=seed)


def told(world: World) -> dict[str, RecommendationView]:
    rows = world.service.tenants()
    return {one.cgroup: one.recommendation for one in rows if one.recommendation is not None}


def obeyed(plant: Plant, found: dict[str, RecommendationView]) -> dict[str, list[float]]:
    """Return the throughput of intervals of a second with all recommendations in force."""
    there = deepcopy(plant)
    for name, one in found.items():
        tenant = there.of(name)
        tenant.swap(one.policy)
        tenant.limit_bytes = tenant.target_bytes = one.limit_bytes
    for _ in range(SETTLES_S):
        there.pass_time()
    ops: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(MEASURED_S):
        before = {name: there.of(name).done for name in found}
        there.pass_time()
        for name in found:
            ops[name].append(there.of(name).done - before[name])
    return ops


def held(path: Path, *objectives: Objective) -> tuple[list[float], list[float]]:
    """Return two values for each tenant of each node.

    The share of intervals that are within the bounds, and the logarithm of the predicted over the
    mean throughput.
    """
    shares, errors = [], []
    for seed in range(NODES):
        (path / str(seed)).mkdir()
        world = World(path / str(seed), node(seed), objectives)
        world.run(LEARNS_S)
        found = told(world)
        for name, ops in obeyed(world.plant, found).items():
            one = found[name]
            within = [one.throughput_low_ops <= each <= one.throughput_high_ops for each in ops]
            shares.append(float(np.mean(within)))
            errors.append(float(np.log(one.throughput_ops / np.mean(ops))))
    assert len(shares) == 4 * NODES
    return shares, errors


def test_bounds_hold_what_tenants_do_with_the_recommendations(tmp_path: Path) -> None:
    shares, _ = held(tmp_path, Objective("*", mode=Mode.RECOMMEND))
    assert 0.90 <= np.mean(shares) <= 1.0, (np.mean(shares), shares)


def test_an_unchanged_setting_predicts_what_is_measured(tmp_path: Path) -> None:
    """Tenants that may neither get nor give memory, nor another policy."""
    stays = Objective(
        "*",
        mode=Mode.RECOMMEND,
        policies=("default",),
        memory_min=parse_size("128MiB"),
        memory_max=parse_size("128MiB"),
    )
    shares, errors = held(tmp_path, stays)
    assert 0.90 <= np.mean(shares) <= 1.0, (np.mean(shares), shares)
    assert np.sqrt(np.mean(np.square(errors))) < 0.013, errors


class Unlimited(Plant):
    """A plant whose tenants have no limit; the memory that they use changes by some pages."""

    def snapshot(self) -> wire.Snapshot:
        found = super().snapshot()
        for one in found.tenants:
            one.limit_bytes = one.target_limit_bytes = 0
            one.current_bytes -= PAGE_BYTES * (self.sequence % 3)
        return found


def test_intervals_of_a_tenant_without_a_limit_count(tmp_path: Path) -> None:
    curve = {"default": linear(400 * MIB)}
    plant = Unlimited([PlantTenant("/a", curve, 128 * MIB)], 256 * MIB, SIZES, noise=0.05)
    world = World(tmp_path, plant, (Objective("*", mode=Mode.RECOMMEND),))
    world.run(80)
    before = plant.of("/a").done
    world.run(40)
    (one,) = told(world).values()
    assert abs(one.present_ops / ((plant.of("/a").done - before) / 40) - 1) < 1e-3


def test_a_tenant_that_does_nothing_has_no_present_throughput(tmp_path: Path) -> None:
    curve = {"default": linear(400 * MIB)}
    tenants = [PlantTenant(name, curve, 128 * MIB) for name in ("/busy", "/idle")]
    plant = Plant(tenants, 256 * MIB, SIZES)
    world = World(tmp_path, plant, (Objective("*", mode=Mode.RECOMMEND),))
    world.run(60)
    before = told(world)
    assert before["/idle"].present_ops > 1000
    plant.of("/idle").threads = 0
    world.run(20)
    assert told(world)["/idle"].present_ops < 0.6 * before["/idle"].present_ops
    world.run(40)
    found, rows = told(world), world.service.tenants()
    assert {one.cgroup: one.throughput_ops for one in rows}["/idle"] == 0
    assert found["/idle"].present_ops == found["/idle"].throughput_high_ops == 0
    assert found["/idle"].confidence is None
    assert found["/busy"].present_ops > 1000
    report = world.loop.report
    assert report is not None
    busy, idle = (report.collected.seen[name] for name in ("/busy", "/idle"))
    assert done_ops(idle) == 0 and busy.sample is not None and done_ops(busy) == busy.sample.ops

    def between_rises(seen: Seen) -> Seen:
        """Return the tenant as if an application counted its operations."""
        assert seen.pages is not None
        return replace(seen, sample=None, pages=seen.pages._replace(ops=None))

    assert done_ops(between_rises(idle)) == 0 and done_ops(between_rises(busy)) is None


def test_the_wait_is_as_uncertain_beside_a_tenant_in_mode_auto(tmp_path: Path) -> None:
    """The other tenant gets less memory in either mode, and what it misses then is predicted."""
    widths = []
    for mode in (Mode.RECOMMEND, Mode.AUTO):
        (tmp_path / mode).mkdir()
        hungry = PlantTenant("/hungry", {"default": linear(300 * MIB)}, 128 * MIB, threads=8)
        sated = PlantTenant("/sated", {"default": linear(60 * MIB, 0.02)}, 128 * MIB)
        plant = Plant([hungry, sated], 256 * MIB, SIZES, capacity_iops=5000)
        stated = Objective("/hungry", mode=Mode.RECOMMEND), Objective("/sated", mode=mode)
        world = World(tmp_path / mode, plant, stated)
        world.run(60)
        one = told(world)["/hungry"]
        assert one.limit_bytes > 128 * MIB
        widths.append(one.throughput_high_ops - one.throughput_low_ops)
    assert np.isclose(widths[0], widths[1], rtol=1e-3), widths


def test_a_rival_that_is_not_adopted_changes_no_prediction(tmp_path: Path) -> None:
    """All tenants keep their settings; what they would gain of other ones is too little."""
    tenants = [
        PlantTenant("/still", {"default": linear(300 * MIB)}, 128 * MIB),
        PlantTenant("/hungry", {"default": linear(400 * MIB)}, 128 * MIB, threads=64),
        PlantTenant("/sated", {"default": linear(16 * MIB, 0.02)}, 128 * MIB),
    ]
    plant = Plant(tenants, 384 * MIB, SIZES, capacity_iops=8000)
    world = World(tmp_path, plant, (Objective("*", mode=Mode.RECOMMEND),))
    planned = 0
    for _ in range(30):
        world.run(1)
        report = world.loop.report
        assert report is not None and report.advice is not None
        plan = report.advice.plan
        planned += any(one.limit_bytes != one.present.limit_bytes for one in plan.actions)
        for one in told(world).values():
            assert (one.policy, one.limit_bytes) == ("default", 128 * MIB)
            assert one.throughput_ops == one.present_ops
    assert planned > 5


def test_no_lower_bound_is_below_the_floor_that_is_shown(tmp_path: Path) -> None:
    world = World(tmp_path, node(1), (Objective("*", mode=Mode.RECOMMEND),))
    world.run(LEARNS_S)
    rows = world.service.tenants()
    assert len(rows) == 4 and max(one.floor_bytes for one in rows) > MIB
    for one in rows:
        assert one.recommendation is not None
        assert one.recommendation.lower_bytes >= one.floor_bytes
