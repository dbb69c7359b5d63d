# SPDX-License-Identifier: Apache-2.0
"""Whatever is compared with a plan is predicted by the model that the plan is made with."""

from dataclasses import replace
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat, linear
from experiments.control_loop.world import World

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.memory import step as memory
from cachepilot.decide.memory.interval import MemoryInterval
from cachepilot.decide.memory.state import MemoryState
from cachepilot.domain.decisions import Decision
from cachepilot.domain.objectives.objective import Mode, Objective
from cachepilot.domain.planned import Action
from cachepilot.model.throughput import ModelKind
from cachepilot.node.shown.report import Report

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192))
EACH = pytest.mark.parametrize("model", list(ModelKind))


def node(path: Path, model: ModelKind, *objectives: Objective) -> World:
    """A node whose device is overloaded, so that reads wait by one model and not by the other."""
    tenants = [
        PlantTenant("/gains", {"default": linear(200 * MIB)}, 64 * MIB),
        PlantTenant("/even", {"default": flat(0.9)}, 128 * MIB),
    ]
    plant = Plant(tenants, 192 * MIB, SIZES, capacity_iops=4000.0)
    world = World(path, plant, objectives)
    world.config = replace(world.config, planner=replace(world.config.planner, model=model))
    world.begin()
    return world


def published(world: World) -> tuple[Report, dict[str, Action]]:
    report = world.loop.report
    assert report is not None
    assert report.plan is not None
    return report, {one.cgroup: one for one in report.plan.actions}


@EACH
def test_parts_of_a_plan_are_worth_what_the_plan_says(
    tmp_path: Path, model: ModelKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    last, step = list[MemoryInterval](), memory.step

    def spied(state: MemoryState, seen: MemoryInterval, config: DecideConfig) -> list[Decision]:
        last[:] = [seen]
        return step(state, seen, config)

    monkeypatch.setattr(memory, "step", spied)
    world = node(tmp_path, model, Objective("*"))
    world.run(5)
    (seen,), (report, actions) = last, published(world)
    assert report.plan is not None
    assert seen.wait_at({}) == pytest.approx(report.plan.device_wait_us, rel=1e-3)
    for name, one in seen.planned_at({}).tenants.items():
        assert one.worth_planned == pytest.approx(seen.tenants[name].worth_planned, abs=1e-4)
        at_present = one.worth_of(actions[name].present.throughput_ops, one.limit_bytes)
        assert one.worth_measured == pytest.approx(at_present, abs=0.02)


@EACH
def test_measured_throughput_counts_in_the_model_of_the_plan(
    tmp_path: Path, model: ModelKind
) -> None:
    """Else a tenant that does what it keeps would lack it, or one that lacks it would not."""
    world = node(tmp_path, model, Objective("*"))
    world.run(5)
    _, actions = published(world)
    for cgroup, recent in world.loop._decider.recents.items():
        predicted = actions[cgroup].present.throughput_ops
        assert recent.kept.did_ops[-1] == pytest.approx(predicted, rel=0.02), cgroup


@EACH
def test_recommendations_have_the_predictions_of_the_plan(tmp_path: Path, model: ModelKind) -> None:
    world = node(tmp_path, model, Objective("*", mode=Mode.RECOMMEND))
    world.run(5)
    report, actions = published(world)
    assert report.advice is not None
    for cgroup, seen in report.collected.seen.items():
        told = report.advice.of(seen)
        assert told is not None
        assert told.present_ops == pytest.approx(actions[cgroup].present.throughput_ops, rel=0.02)


@EACH
def test_a_target_is_corrected_by_what_the_model_of_the_plan_is_off(
    tmp_path: Path, model: ModelKind
) -> None:
    """The planner predicts what is measured: what it is to reach is the target as stated."""
    stated = Objective("/gains", throughput_ops=1_000.0, mode=Mode.OBSERVE)
    world = node(tmp_path, model, stated, Objective("*", mode=Mode.OBSERVE))
    world.run(30)
    report, _ = published(world)
    corrected = world.loop._targets.corrected(report.objectives).of("/gains")
    assert corrected.throughput_ops == pytest.approx(stated.throughput_ops, rel=0.05)
