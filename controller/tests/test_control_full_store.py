# SPDX-License-Identifier: Apache-2.0
"""A store that cannot be written: changes are rolled back, none begins, no decision is lost."""

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, PlantTenant, linear
from prometheus_client import REGISTRY
from worlds import fooled, hungry, liar, looping, until, world

from cachepilot.api.shapes.questions import Pin
from cachepilot.node import keeper
from cachepilot.store import journal
from cachepilot.store.store import Store


def unstored() -> float:
    name = "cachepilot_control_cycles_unstored_total"
    return REGISTRY.get_sample_value(name, {"node": "plant"}) or 0.0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return a context manager in which the disk is full."""

    def begin(_: Store) -> None:
        full = sqlite3.OperationalError("database or disk is full")
        full.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise full

    @contextlib.contextmanager
    def full() -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(Store, "_begin", begin)
            yield

    return full


Disk = Callable[[], contextlib.AbstractContextManager[None]]


def test_a_policy_is_rolled_back_although_nothing_can_be_stored(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    tenant, before = fooled(), unstored()
    here = world(tmp_path, tenant)
    until(here, lambda: tenant.policy == "mru")
    with disk(), caplog.at_level(logging.ERROR):
        here.run(30)
        assert tenant.policy == "default"
        assert "disk is full" in here.service.nodes()[0].problem
    assert here.events() == ["trial"] and unstored() > before
    said = [one.getMessage() for one in caplog.records]
    assert sum("cannot be written" in text for text in said) == 1
    here.run(1)
    assert here.events() == ["trial", "reverted"]
    assert not here.service.nodes()[0].problem


def test_memory_goes_back_though_nothing_can_be_stored(tmp_path: Path, disk: Disk) -> None:
    donor, taker = liar(), hungry()
    here = world(tmp_path, taker, donor)
    until(here, lambda: donor.limit_bytes < 128 * MIB)
    with disk():
        here.run(1)
        least = donor.target_bytes
        for _ in range(60):
            here.run(1)
            assert donor.target_bytes >= least, "it went on giving"
        assert donor.limit_bytes == taker.limit_bytes == 128 * MIB
    here.run(1)
    assert here.events("/liar") == ["trial", "reverted"]


def test_nothing_begins_that_cannot_be_stored(tmp_path: Path, disk: Disk) -> None:
    tenant, donor = looping(), PlantTenant("/sated", {"default": linear(16 * MIB)}, 128 * MIB)
    here = world(tmp_path, tenant, donor, hungry())
    with disk():
        here.run(40)
        assert tenant.policy == "default"
        assert {one.limit_bytes for one in here.plant.tenants} == {128 * MIB}
    assert here.events() == []
    until(here, lambda: tenant.policy == "mru" and donor.limit_bytes < 128 * MIB)
    assert here.events("/scan")[0] == here.events("/sated")[0] == "trial"


def test_a_change_that_could_not_be_stored_is_made_once_it_is(tmp_path: Path, disk: Disk) -> None:
    rehearsed = world(tmp_path / "rehearsed", looping())
    until(rehearsed, lambda: bool(rehearsed.events()))
    tenant = looping()
    here = world(tmp_path, tenant)
    here.run(rehearsed.plant.epoch - 1)
    with disk():
        here.run(1)
        assert here.loop._decider.state.tenants["/scan"].policy.trial is not None
        here.run(40)
        assert tenant.policy == "default", "it was sent before it was stored"
    here.run(2)
    assert tenant.policy == "mru" and here.events() == ["trial"]


def test_epochs_keep_rising_although_none_can_be_reserved(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "EPOCHS_RESERVED", 3)
    here = world(tmp_path, looping())
    here.run(2)
    with disk():
        here.run(10)
        last = here.plant.epoch
        here.plant.forget_session()
        here.loop.end()
        here.loop.begin(here.plant.hello())
        here.run(2)
    here.restart()
    here.run(1)
    assert here.plant.epoch > last + 2


def test_a_pin_ends_though_that_cannot_be_stored(tmp_path: Path, disk: Disk) -> None:
    tenant = looping()
    here = world(tmp_path, tenant)
    now_s = here.store.now_s()
    here.run(1)
    here.service.pin(Pin(cgroup="/scan", policy="mru", until_s=now_s + 60))
    here.run(2)
    assert tenant.policy == "mru"
    with disk(), pytest.MonkeyPatch.context() as later:
        later.setattr(here.store, "_clock", lambda: now_s + 61)
        here.run(2)
        assert not here.fleet.asked().pins


def test_decisions_that_wait_are_bounded_and_counted(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "WAITING_MAX", 1)
    tenants = [fooled(f"/{i}") for i in range(2)]
    here = world(tmp_path, *tenants)
    until(here, lambda: {one.policy for one in tenants} == {"mru"})
    name, labels = "cachepilot_control_decisions_lost_total", {"node": "plant"}
    before = REGISTRY.get_sample_value(name, labels) or 0.0
    with disk():
        until(here, lambda: here.loop._keeper.has_waiting)
        here.run(30)
    assert (REGISTRY.get_sample_value(name, labels) or 0.0) > before


def test_a_transaction_that_fails_on_a_full_disk_leaves_a_store_that_works(tmp_path: Path) -> None:
    full = Store(tmp_path / "c.db")
    pages = full._rows("PRAGMA page_count")[0][0]
    full._rows(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        for epoch in range(100):
            full.save_record("n", epoch, str(list(range(20_000))).encode())
    full._rows("PRAGMA max_page_count = 1000000")
    full.save_record("n", 100, b"{}")
    assert full.record("n", 100) == b"{}"
