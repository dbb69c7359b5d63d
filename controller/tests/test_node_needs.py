# SPDX-License-Identifier: Apache-2.0
"""The needs of tenants are kept for a day by quarter of an hour, and survive a restart."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, scan
from experiments.control_loop.world import World

from cachepilot.domain.objectives.objective import Objective
from cachepilot.domain.past.need import SLOT_S, SLOTS, Need, PastNeeds, slot_of
from cachepilot.fleet.tenants.next_needs import next_needs
from cachepilot.fleet.tenants.past_needs import past_needs
from cachepilot.node.needs import node_needs, sampling
from cachepilot.node.needs.node_needs import EVERY_S, NodeNeeds
from cachepilot.node.needs.recent import RecentNeeds
from cachepilot.sizes import parse_size
from cachepilot.store.failures import StoreFailedError
from cachepilot.store.store import Store

NOW_S = 1.8e9
NOW = slot_of(NOW_S)


def _sizes(one: RecentNeeds, now: int, slots: int = SLOTS) -> dict[int, float]:
    told = one.told(now, slots)
    return dict(zip(told.slots.tolist(), told.size_bytes.tolist(), strict=True))


def test_noise_of_one_regime_is_not_what_it_needs() -> None:
    one = RecentNeeds()
    for size in (100, 90, 500, 110, 105):
        one.take(NOW, 7, Need(size, 10.0))
    assert _sizes(one, NOW) == {NOW: 105.0}


def test_a_slot_has_the_largest_need_of_its_regimes() -> None:
    one = RecentNeeds()
    for regime, size, iops in ((1, 100, 50.0), (1, 120, 50.0), (2, 300, 5.0), (3, 20, 9.0)):
        one.take(NOW, regime, Need(size, iops))
    told = one.told(NOW)
    assert (told.size_bytes.tolist(), told.device_iops.tolist()) == ([300.0], [50.0])


def test_known_cpus_are_kept() -> None:
    one = RecentNeeds()
    for cpus in (None, 1.0, 9.0, 2.0):
        one.take(NOW, 1, Need(1, 1.0, cpus))
    assert one.told(NOW).cpus.tolist() == [2.0]
    one.take(NOW, 2, Need(1, 1.0, None))
    assert one.of(NOW) == Need(1.0, 1.0, 2.0), "of the regime that needed most"
    one.take(NOW, 3, Need(1, 1.0, 3.0))
    one.take(NOW + 1, 3, Need(1, 1.0, None))
    assert one.told(NOW + 1).cpus.tolist() == [3.0, pytest.approx(np.nan, nan_ok=True)]
    assert one.of(NOW + 1) == Need(1.0, 1.0, None)


def test_a_day_of_needs_is_kept_for_any_clock() -> None:
    one = RecentNeeds()
    for slot in range(NOW, NOW + 2 * SLOTS):
        one.take(slot, 1, Need(slot - NOW, 0.0))
    newest = NOW + 2 * SLOTS - 1
    assert list(_sizes(one, newest)) == list(range(newest - SLOTS + 1, newest + 1))
    assert list(_sizes(one, newest, 3)) == [newest - 2, newest - 1, newest]
    back = newest - 10
    one.take(back, 1, Need(7, 0.0))
    assert list(_sizes(one, back)) == list(range(newest - SLOTS + 1, back + 1)), "none to come"
    assert one.newest(back) == back
    assert RecentNeeds().newest(NOW) < 0
    assert RecentNeeds().told(NOW).slots.size == 0


def test_needs_outlive_a_restart_and_a_slot_that_is_not_over_goes_on(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db", clock=lambda: NOW_S)
    needs = NodeNeeds("a", store)
    assert needs.is_due(NOW_S)
    needs.take(NOW_S - SLOT_S, {"/web": Need(300, 20.0), "/gone": Need(5, 1.0)}, {"/web": 1})
    needs.take(NOW_S, {"/web": Need(40, 2.0, 0.5)}, {"/web": 2})
    assert not needs.is_due(NOW_S + EVERY_S - 1)
    assert needs.is_due(NOW_S - 1), "a clock that went back keeps nothing from being taken"
    needs.save()
    store.close()
    store = Store(tmp_path / "c.db", clock=lambda: NOW_S)
    again = NodeNeeds("a", store)
    again.take(NOW_S + 1, {"/web": Need(30, 1.0, 0.25)}, {"/web": 0})
    told = again.told(NOW_S + 1)
    assert told["/web"].size_bytes.tolist() == [300.0, 40.0]
    assert told["/web"].device_iops.tolist() == [20.0, 2.0]
    assert told["/web"].cpus.tolist() == [pytest.approx(np.nan, nan_ok=True), 0.5]
    assert told["/gone"].size_bytes.tolist() == [5.0]
    assert not NodeNeeds("b", store).told(NOW_S)
    store.close()


def test_unreadable_needs_are_quarantined_and_old_ones_dropped(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db", clock=lambda: NOW_S)
    for slot, text in (
        (NOW, '{"/web": [1, 2]}'),
        (NOW - 1, '{"/web": [-1, 2]}'),
        (NOW - 2, '{"/web": [1, Infinity]}'),
        (NOW - 3, "[1]"),
        (NOW - 4, "{"),
        (NOW - SLOTS, '{"/web": [9, 9]}'),
        (NOW - 5, '{"/web": [1' + 400 * "0" + ", 2]}"),
        (NOW - 7, '{"/web": [1, 2, -1]}'),
        (NOW - 8, '{"/web": [1, 2, NaN]}'),
        (NOW - 9, '{"/web": [1, 2, 3, 4]}'),
        (NOW - 10, '{"/web": [1]}'),
    ):
        store.save_needs("a", slot, text)
    store.prune()
    _damage(tmp_path / "c.db", NOW - 6, b"\xff\xfe\xff", as_text=True)
    _damage(tmp_path / "c.db", "soon", b'{"/web": [7, 7]}')
    _damage(tmp_path / "c.db", NOW - 0.5, b'{"/web": [8, 8]}')
    told = NodeNeeds("a", store).told(NOW_S)
    assert told["/web"].slots.tolist() == [NOW]
    store.close()
    db = sqlite3.connect(tmp_path / "c.db")
    assert db.execute("SELECT count(*) FROM quarantine WHERE kind = 'needs'").fetchone() == (12,)
    assert db.execute("SELECT min(slot) FROM needs").fetchone() == (NOW - 10,)


def test_needs_of_a_version_that_knew_no_cpus_are_restored(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db", clock=lambda: NOW_S)
    store.save_needs("a", NOW - 1, '{"/web": [3145728, 20.5], "/db": [5, 1.0]}')
    needs = NodeNeeds("a", store)
    needs.take(NOW_S, {"/web": Need(7, 2.0, 1.5)}, {})
    told = needs.told(NOW_S)["/web"]
    assert told.size_bytes.tolist() == [3145728.0, 7.0]
    assert told.cpus.tolist() == [pytest.approx(np.nan, nan_ok=True), 1.5]
    store.close()


def _damage(path: Path, slot: object, data: bytes, as_text: bool = False) -> None:
    db = sqlite3.connect(path)
    value = "CAST(? AS TEXT)" if as_text else "?"
    db.execute(f"INSERT INTO needs VALUES ('a', ?, {value})", (slot, data))
    db.commit()
    db.close()


def test_a_damaged_row_in_a_full_store_keeps_no_node_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "c.db", clock=lambda: NOW_S)
    store.save_needs("a", NOW, "{")

    def full(*_: object) -> None:
        raise StoreFailedError("store c.db: cannot be written: the disk is full", is_full=True)

    monkeypatch.setattr(store, "set_aside", full)
    assert not NodeNeeds("a", store).told(NOW_S)
    store.close()


def test_slots_of_a_clock_that_was_ahead_are_not_restored_and_dropped(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db", clock=lambda: NOW_S)
    for slot in (NOW, NOW + 1, NOW + SLOTS - 1, NOW + 7 * SLOTS):
        store.save_needs("a", slot, '{"/web": [1, 2]}')
    needs = NodeNeeds("a", store)
    assert needs.told(NOW_S)["/web"].slots.tolist() == [NOW] and needs.last() == {"/web"}
    store.prune()
    assert [slot for slot, _ in store.needs("a", 0, 2 * NOW)] == [NOW, NOW + 1]
    store.close()


def test_needs_that_cannot_be_stored_are_stored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "c.db", clock=lambda: NOW_S)
    needs = NodeNeeds("a", store)
    needs.take(NOW_S - 2 * SLOT_S, {"/web": Need(1, 1.0)}, {})

    def full(*_: object) -> None:
        raise StoreFailedError("store c.db: cannot be written: the disk is full", is_full=True)

    with monkeypatch.context() as now:
        now.setattr(store, "save_needs", full)
        needs.take(NOW_S - SLOT_S, {"/web": Need(2, 1.0)}, {})
    needs.take(NOW_S, {"/web": Need(3, 1.0)}, {})
    assert [slot for slot, _ in store.needs("a", 0, NOW)] == [NOW - 2, NOW - 1]
    store.close()


def test_tenants_beyond_the_bound_are_forgotten_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_needs, "TENANTS_MAX", 2)
    store = Store(tmp_path / "c.db", clock=lambda: NOW_S)
    lost: list[int] = []
    needs = NodeNeeds("many", store, lost.append)
    for at in range(4):
        needs.take(NOW_S + at * SLOT_S, {f"/t{at}": Need(1, 1.0)}, {})
    assert set(needs.told(NOW_S + 3 * SLOT_S)) == {"/t2", "/t3"}
    assert sum(lost) == 2
    needs.take(NOW_S + 2 * SLOTS * SLOT_S, {"/new": Need(1, 1.0)}, {})
    assert set(needs.told(NOW_S + 2 * SLOTS * SLOT_S)) == {"/new"}
    store.close()


def _world(path: Path, now: list[float], *tenants: PlantTenant, cpus: int = 0) -> World:
    plant = Plant(list(tenants), 512 * MIB, tuple(MIB * 2**i for i in range(3, 9)), cpus=cpus)
    here = World(path, plant, (Objective("*", memory_min=parse_size("1MiB")),))
    here.store.close()
    here.store = Store(here.path, clock=lambda: now[0])
    here.begin()
    return here


def _run(here: World, now: list[float], seconds: int) -> None:
    """Run so many seconds, also on the clock of the controller's host."""
    for _ in range(seconds):
        now[0] += 1
        here.run(1)


def test_a_controller_that_starts_again_knows_what_its_tenants_needed(tmp_path: Path) -> None:
    now = [NOW_S]
    large, small = {"default": scan(128 * MIB, 0.3)}, {"default": scan(16 * MIB, 0.3)}
    web = PlantTenant("/web", large, 200 * MIB, error_bar=1e-4)
    here = _world(tmp_path, now, web, PlantTenant("/db", small, 32 * MIB, error_bar=1e-4))
    _run(here, now, 130)
    web.change(small)
    web.phase += 1
    now[0] += SLOT_S
    _run(here, now, 70)
    here.store.close()
    here.store = Store(here.path, clock=lambda: now[0])
    here.begin()
    here.run(5)
    found = {row.cgroup: row for row in here.service.consolidation().tenants}
    assert found["/web"].least_bytes <= 32 * MIB
    assert found["/web"].peak_bytes >= 120 * MIB
    assert found["/web"].peak_s == NOW * SLOT_S
    assert found["/db"].peak_s is None or found["/db"].peak_bytes <= 32 * MIB


def test_cpus_are_measured_and_kept(tmp_path: Path) -> None:
    now = [NOW_S]
    curves = {"default": scan(16 * MIB, 0.3)}
    web = PlantTenant("/web", curves, 32 * MIB, error_bar=1e-4, threads=4, service_us=100.0)
    here = _world(tmp_path, now, web, cpus=2)
    _run(here, now, 70)
    uses = here.plant.ops(web) * 100.0 / 1e6
    assert uses > 0.1
    (row,) = here.service.consolidation().tenants
    assert row.cpus == pytest.approx(uses, rel=0.05)
    here.loop.end()
    here.store.close()
    here.store = Store(here.path, clock=lambda: now[0])
    here.begin()
    (loop,) = here.fleet.loops().values()
    assert loop.needs.told(now[0])["/web"].cpus == pytest.approx([uses], rel=0.05)


def test_the_past_needs_of_a_moved_tenant_are_those_of_its_old_node(tmp_path: Path) -> None:
    here = _world(tmp_path, [NOW_S], PlantTenant("/web", {"default": scan(MIB)}, 8 * MIB))
    loops = {name: here.fleet.join(name) for name in ("a", "b")}
    for slot, node, size in ((-3, "a", 300), (-2, "a", 200), (-2, "b", 50), (0, "b", 20)):
        loops[node].needs.take(NOW_S + slot * SLOT_S, {"/web": Need(size, 1.0)}, {})
    loops["a"].needs.take(NOW_S, {"/other": Need(1, 1.0)}, {})
    found = past_needs(loops, {"b": ["/web"], "a": []}, NOW_S, 24.0)
    assert found["b", "/web"].slots.tolist() == [NOW - 3, NOW - 2, NOW]
    assert found["b", "/web"].size_bytes.tolist() == [100.0, 50.0, 20.0]
    assert found["b", "/web"].last[0].tolist()[:2] == [200.0, 1.0]
    moved = found["b", "/web"].moved
    assert moved.tolist() == [True, False, False]
    loops["a"].needs.take(NOW_S + SLOT_S, {"/web": Need(200, 1.0)}, {})
    alone = past_needs(loops, {"b": ["/web"]}, NOW_S, 24.0)
    assert alone["b", "/web"].size_bytes.tolist() == [50.0, 20.0], "`a` may have one of that path"
    both = past_needs(loops, {"b": ["/web"], "a": ["/web"]}, NOW_S, 24.0)
    assert both["b", "/web"].size_bytes.tolist() == [50.0, 20.0]
    assert both["a", "/web"].size_bytes.tolist() == [300.0, 200.0]
    recent = past_needs(loops, {"b": ["/web"]}, NOW_S, 0.5)
    assert recent["b", "/web"].size_bytes.tolist() == [50.0, 20.0]
    assert past_needs(loops, {"b": ["/web"]}, NOW_S, 0.0) == {}


def test_cpus_of_a_tenant_that_moved_are_those_that_it_needed_more(tmp_path: Path) -> None:
    here = _world(tmp_path, [NOW_S], PlantTenant("/web", {"default": scan(MIB)}, 8 * MIB))
    loops = {name: here.fleet.join(name) for name in "ab"}
    for slot, cpus in ((-4, None), (-3, 5.0), (-2, 2.0)):
        loops["a"].needs.take(NOW_S + slot * SLOT_S, {"/web": Need(1, 1.0, cpus)}, {})
    loops["a"].needs.take(NOW_S, {"/other": Need(1, 1.0)}, {})
    loops["b"].needs.take(NOW_S, {"/web": Need(1, 1.0, 2.5)}, {})
    found = past_needs(loops, {"b": ["/web"]}, NOW_S, 24.0)["b", "/web"]
    unknown = pytest.approx(np.nan, nan_ok=True)
    assert found.cpus.tolist() == [unknown, 3.0, 0.0, 2.5]
    assert found.size_bytes.tolist() == [0.0, 0.0, 0.0, 1.0]


def test_the_next_needs_are_those_of_a_day_ago_from_now_on(tmp_path: Path) -> None:
    here = _world(tmp_path, [NOW_S], PlantTenant("/web", {"default": scan(MIB)}, 8 * MIB))
    loops = {name: here.fleet.join(name) for name in ("a", "b")}
    day = SLOTS - 1
    for slot, node, size in (
        (-day - 1, "a", 9), (-day, "a", 40), (1 - day, "b", 30), (4 - day, "a", 300),
        (5 - day, "a", 500), (-8, "a", 20), (-1, "b", 25), (0, "b", 25),
    ):  # fmt: skip
        loops[node].needs.take(NOW_S + slot * SLOT_S, {"/web": Need(size, 1.0)}, {})
    loops["a"].needs.take(NOW_S, {"/other": Need(1, 1.0)}, {})
    found = next_needs(loops, {"b": ["/web"]}, NOW_S, 1.0)["b", "/web"]
    assert found.slots.tolist() == [NOW - day, NOW - day + 1, NOW - day + 4]
    # On `a` it counts by how much more it was there than at last.
    assert found.size_bytes.tolist() == [20.0, 30.0, 280.0]
    assert found.moved.tolist() == [True, False, True]
    assert next_needs(loops, {"b": ["/web"]}, NOW_S, 0.0) == {}
    assert next_needs(loops, {"a": ["/other"]}, NOW_S, 1.0) == {}


def test_needs_that_cannot_be_made_hold_up_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked = [NOW_S], list[float]()

    def fails(*_: object) -> None:
        asked.append(now[0])
        raise ZeroDivisionError

    monkeypatch.setattr(sampling, "needs_now", fails)
    web = PlantTenant("/web", {"default": scan(16 * MIB, 0.3)}, 32 * MIB, error_bar=1e-4)
    here = _world(tmp_path, now, web)
    saved: list[int] = []
    (own,) = here.fleet.loops().values()
    monkeypatch.setattr(own._keeper, "keep_series", lambda *_: saved.append(1))
    _run(here, now, 8)
    assert len(asked) == 1 and len(saved) == 8
    assert not own.needs.told(now[0])


def test_a_stale_node_still_has_its_tenants(tmp_path: Path) -> None:
    now = [NOW_S]
    web = PlantTenant("/web", {"default": scan(128 * MIB, 0.3)}, 200 * MIB, error_bar=1e-4)
    here = _world(tmp_path, now, web)
    _run(here, now, 5)
    (own,) = here.fleet.loops().values()
    other = here.fleet.join("other")
    own.needs.take(NOW_S - SLOT_S, {"/web": Need(300, 1.0)}, {})
    own.needs.take(NOW_S, {"/gone": Need(1, 1.0)}, {})
    assert own.report is not None
    assert not past_needs({own.name: own, "other": other}, {"other": ["/web"]}, NOW_S, 24.0)


def test_only_the_past_of_tenants_that_are_there_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = _world(tmp_path, [NOW_S], PlantTenant("/web", {"default": scan(MIB)}, 8 * MIB))
    loop = here.fleet.join("a")
    loop.needs.take(NOW_S, {f"/t{at}": Need(1, 1.0) for at in range(50)}, {})
    made: list[RecentNeeds] = []
    told = RecentNeeds.told

    def counted(one: RecentNeeds, now: int, slots: int = SLOTS) -> PastNeeds:
        made.append(one)
        return told(one, now, slots)

    monkeypatch.setattr(RecentNeeds, "told", counted)
    assert set(past_needs({"a": loop}, {"a": ["/t1"]}, NOW_S, 24.0)) == {("a", "/t1")}
    assert len(made) == 1
