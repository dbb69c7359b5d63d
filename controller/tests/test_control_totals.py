# SPDX-License-Identifier: Apache-2.0
"""The totals behind alerts, as a scraper reads them, over restarts of the controller."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear, scan
from experiments.control_loop.world import World
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from cachepilot.api.metrics import Exposition
from cachepilot.domain.objectives.objective import Objective
from cachepilot.node import loop
from cachepilot.node.deciding.presence import PATIENCE_S
from cachepilot.node.loop import SAVE_CYCLES
from cachepilot.store.failures import StoreFailedError

SIZES = tuple(MIB * size for size in (16, 64, 128, 256))


def totals(world: World) -> dict[tuple[str, str, str], float]:
    """Return every counter of the tenants, by name, cgroup, and kind of SLO or event."""
    text = Exposition(world.service, CollectorRegistry()).text().decode()
    return {
        (one.name, one.labels["cgroup"], one.labels.get("slo") or one.labels["event"]): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name.endswith("_total") and "cgroup" in one.labels
    }


def a_world(path: Path) -> World:
    """Return a world with one tenant, which meets its hit ratio SLO once its policy is swapped."""
    curves = {"default": scan(200 * MIB), "mru": linear(200 * MIB)}
    plant = Plant([PlantTenant("/a", curves, 128 * MIB)], 128 * MIB, SIZES)
    return World(path, plant, [Objective("/a", hit_ratio=0.5)])


def test_totals_are_counted_and_outlive_a_kill(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    world.run(4 * SAVE_CYCLES)
    before = totals(world)
    windows = before["cachepilot_slo_windows_total", "/a", "hit_ratio"]
    met = before["cachepilot_slo_windows_met_total", "/a", "hit_ratio"]
    assert 3 * SAVE_CYCLES - 2 <= windows <= 4 * SAVE_CYCLES
    assert windows / 2 < met < windows
    events = {key[2]: count for key, count in before.items() if "decisions" in key[0]}
    assert events.pop("trial") == events.pop("kept") == 1 and not any(events.values())
    world.restart()
    world.run(1)
    after = totals(world)
    assert all(after[key] >= count for key, count in before.items())
    world.run(SAVE_CYCLES)
    then = totals(world)["cachepilot_slo_windows_total", "/a", "hit_ratio"]
    assert windows < then <= windows + 2 * SAVE_CYCLES


def test_no_counter_falls_wherever_the_controller_is_killed(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    shown: dict[tuple[str, str, str], float] = {}
    for cycles in (3, SAVE_CYCLES, 7, 1, 2 * SAVE_CYCLES + 3):
        world.run(cycles)
        now = totals(world)
        assert all(now[key] >= count for key, count in shown.items())
        shown = now
        world.restart()
    assert shown["cachepilot_slo_windows_total", "/a", "hit_ratio"] > SAVE_CYCLES


def test_a_tenant_that_is_gone_leaves_nothing_behind(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    world.run(2 * SAVE_CYCLES)
    assert world.store.slo_totals("plant") and world.store.decision_totals("plant")
    world.plant.tenants.clear()
    world.run(int(PATIENCE_S) + 2 * SAVE_CYCLES)
    assert not world.store.slo_totals("plant") and not world.store.decision_totals("plant")


def stored(world: World) -> list[object]:
    """Return the cgroups in the tables that outlive a cycle."""
    store = world.store
    return [
        [one.cgroup for one in of("plant")]
        for of in (store.slo_totals, store.slo_targets, store.decision_totals, store.baselines)
    ]


def test_a_tenant_that_is_missing_for_a_moment_keeps_its_totals(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    world.run(2 * SAVE_CYCLES)
    before = stored(world)
    known = list(world.plant.tenants)
    world.plant.tenants.clear()
    world.run(2 * SAVE_CYCLES)
    assert stored(world) == before and all(before)
    world.plant.tenants.extend(known)
    world.run(1)
    assert stored(world) == before


def fails_when_somebody_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Let the first write that is to drop rows of tenants fail; return the tenants it named."""
    failed: list[set[str]] = []
    save = world.store.save

    def once(*args: Any, **more: Any) -> None:
        gone = inspect.signature(save).bind(*args, **more).arguments.get("gone")
        if gone and not failed:
            failed.append(set(gone))
            raise StoreFailedError("store: cannot be written", is_full=False)
        save(*args, **more)

    monkeypatch.setattr(world.store, "save", once)
    return failed


def test_a_write_that_fails_leaves_no_rows_of_a_tenant_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world(tmp_path)
    world.run(2 * SAVE_CYCLES)
    assert all(stored(world))
    failed = fails_when_somebody_is_gone(world, monkeypatch)
    world.plant.tenants.clear()
    world.run(int(PATIENCE_S) + 4 * SAVE_CYCLES)
    assert failed == [{"/a"}] and not any(stored(world))
    assert not world.store.windows("plant") and not world.store.slo_hours("plant")


def test_a_tenant_that_is_back_before_its_rows_are_dropped_starts_again_and_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world(tmp_path)
    world.run(2 * SAVE_CYCLES)
    failed = fails_when_somebody_is_gone(world, monkeypatch)
    known = list(world.plant.tenants)
    world.plant.tenants.clear()
    while not failed:
        world.run(1)
    world.plant.tenants.extend(known)
    world.run(3 * SAVE_CYCLES)
    (total,) = world.store.slo_totals("plant")
    assert SAVE_CYCLES <= total.windows <= 3 * SAVE_CYCLES
    assert world.store.baselines("plant")


def test_a_first_cycle_that_fails_costs_no_totals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world(tmp_path)
    world.run(2 * SAVE_CYCLES)
    before = stored(world)
    world.restart()

    def broken(*_: object) -> None:
        raise ZeroDivisionError("by design")

    with monkeypatch.context() as broken_once:
        broken_once.setattr(loop, "plan_step", broken)
        world.loop.cycle(world.plant.snapshot())
    world.loop.after()
    world.loop.end()
    assert stored(world) == before and all(before)


def test_the_page_cache_of_a_tenant_is_shown(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    world.run(3)
    row = world.service.tenants()[0]
    assert row.file_bytes is not None and 0 < row.file_bytes <= row.current_bytes
