# SPDX-License-Identifier: Apache-2.0
"""Curves of low confidence: the hits of a full page cache are certain, and bound the loss."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import Plant, PlantTenant, flat, linear, scan
from experiments.control_loop.world import World
from hypothesis import given
from hypothesis import strategies as st

from cachepilot.domain.objectives.objective import Fixed, Objective, Objectives
from cachepilot.domain.planned import Held
from cachepilot.plan.problem.asked import Asked
from cachepilot.sense.counters import Pages
from cachepilot.sense.turnover import Turnover, certain_curves
from cachepilot.sizes import PAGE_BYTES

MIB = 1 << 20
LIMIT_PAGES = 1000
LIMIT_BYTES = LIMIT_PAGES * PAGE_BYTES
SIZES = tuple(MIB * size for size in (16, 32, 64, 96, 128, 192, 256))
EVERYBODY = (Objective("*"),)


def taken(known: Turnover, *pages: tuple[int, int], limit_bytes: int = LIMIT_BYTES) -> float | None:
    for one in pages:
        known.take("lru", limit_bytes, Pages(*one), True)
    return known.miss_ratio


def test_nothing_is_known_before_a_full_cache_turned_over() -> None:
    known = Turnover()
    known.take("lru", LIMIT_BYTES, Pages(5000, 5000), False)
    assert taken(known, *[(500, 400)] * 3) is None
    assert taken(known, (500, 400)) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("policy", "limit_bytes", "pages"),
    [
        ("arc", LIMIT_BYTES, Pages(500, 500)),
        ("lru", LIMIT_BYTES + PAGE_BYTES, Pages(500, 500)),
        ("lru", LIMIT_BYTES, None),
    ],
)
def test_another_policy_a_raised_limit_and_a_gap_restart_the_turnover(
    policy: str, limit_bytes: int, pages: Pages | None
) -> None:
    known = Turnover()
    assert taken(known, *[(500, 500)] * 4) == 1.0
    known.take(policy, limit_bytes, pages, True)
    assert known.miss_ratio is None


def test_a_limit_that_falls_adds_no_hits() -> None:
    known = Turnover()
    taken(known, *[(500, 500)] * 4)
    assert taken(known, (500, 500), limit_bytes=LIMIT_BYTES // 2) == 1.0


def test_a_tenant_that_begins_to_hit_is_noticed() -> None:
    known = Turnover()
    assert taken(known, *[(500, 500)] * 4) == 1.0
    miss = taken(known, *[(500, 0)] * 8)
    assert miss is not None and miss < 0.3


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), max_size=40))
def test_a_miss_ratio_is_one_whatever_is_counted(pages: list[tuple[int, int]]) -> None:
    found = taken(Turnover(), *pages)
    assert found is None or 0 <= found <= 1


def test_certain_curves_predict_no_gain() -> None:
    found = certain_curves("lru", LIMIT_BYTES, 0.25)
    assert found.policies == ("lru",)
    assert found.sizes_bytes.tolist() == [LIMIT_BYTES - PAGE_BYTES, LIMIT_BYTES]
    assert found.miss_ratio.tolist() == [[1.0, 0.25]]


def doubted(miss: float) -> tuple[PlantTenant, PlantTenant, PlantTenant]:
    """Return three tenants; the curves of the first have low confidence and are too good.

    The second has true curves, the third a cliff.
    """
    batch = PlantTenant("/batch", {"default": flat(miss)}, 128 * MIB)
    batch.told, batch.distrust = {"default": scan(96 * MIB)}, "predicts 0, measured more"
    cached = PlantTenant("/cached", {"default": linear(140 * MIB)}, 96 * MIB)
    needs = PlantTenant("/needs", {"default": scan(60 * MIB)}, 32 * MIB)
    return batch, cached, needs


def test_a_tenant_without_hits_gives_memory_first(tmp_path: Path) -> None:
    batch, cached, needs = doubted(1.0)
    here = World(tmp_path, Plant([batch, cached, needs], 256 * MIB, SIZES), EVERYBODY)
    said = set()
    for _ in range(200):
        here.run(1)
        said.add(planned_why(here, "/batch"))
    assert batch.limit_bytes <= 64 * MIB
    assert cached.limit_bytes >= 96 * MIB and needs.limit_bytes >= 60 * MIB
    assert any("it hits 0%, and no more can be lost; confidence in" in one for one in said)
    assert "unchanged: confidence in the curves is low" in planned_why(here, "/batch")


def test_with_low_confidence_a_tenant_that_hits_what_it_keeps_gives_nothing(
    tmp_path: Path,
) -> None:
    batch, cached, needs = doubted(0.5)
    here = World(tmp_path, Plant([batch, cached, needs], 256 * MIB, SIZES), EVERYBODY)
    here.run(200)
    assert batch.limit_bytes == 128 * MIB


def test_with_low_confidence_a_tenant_with_an_slo_keeps_its_memory(tmp_path: Path) -> None:
    batch, cached, needs = doubted(1.0)
    stated = (Objective("/batch", throughput_ops=100_000.0), *EVERYBODY)
    here = World(tmp_path, Plant([batch, cached, needs], 256 * MIB, SIZES), stated)
    here.run(200)
    assert batch.limit_bytes == 128 * MIB


@pytest.mark.parametrize(
    "stated",
    [
        Objective("/batch", fixed=Fixed(policy="other")),
        Objective("/batch", throughput_ops=1.0),
        Objective("/batch", policies=("other",)),
    ],
)
def test_certain_curves_are_not_used_for_pins_and_slos(tmp_path: Path, stated: Objective) -> None:
    here = World(tmp_path, Plant([*doubted(1.0)], 256 * MIB, SIZES), EVERYBODY)
    here.run(60)
    report = here.loop.report
    assert report is not None
    snapshot = report.collected.snapshot
    own = Asked.of(snapshot, Objectives(EVERYBODY))
    asked = Asked.of(snapshot, Objectives((stated, *EVERYBODY)))
    assert (own.held[0], asked.held[0]) == (Held.NOT, Held.UNTRUSTED)
    assert len(own.curves[0].sizes_bytes) == 2 and asked.curves[0] is snapshot.tenants[0].curves


def test_with_low_confidence_memory_that_an_slo_does_not_need_comes_back(
    tmp_path: Path,
) -> None:
    batch = PlantTenant("/batch", {"default": scan(96 * MIB)}, 128 * MIB)
    needs = PlantTenant("/needs", {"default": linear(160 * MIB)}, 32 * MIB)
    much, little = (Objective("/needs", throughput_ops=one) for one in (24_000.0, 8_000.0))
    here = World(tmp_path, Plant([batch, needs], 160 * MIB, SIZES), (much, *EVERYBODY))
    for _ in range(100):
        here.run(1)
        if batch.limit_bytes < 96 * MIB and not batch.distrust:
            batch.told, batch.distrust = {"default": flat(1.0)}, "predicts 1, measured less"
    taken_bytes = batch.limit_bytes
    here.service.set_objectives(Objectives((little, *EVERYBODY)))
    here.run(30)
    assert taken_bytes < 40 * MIB and batch.limit_bytes >= 96 * MIB


def planned_why(world: World, cgroup: str) -> str:
    report = world.loop.report
    assert report is not None and report.plan is not None
    return next(one.why for one in report.plan.actions if one.cgroup == cgroup)
