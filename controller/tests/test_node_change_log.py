# SPDX-License-Identifier: Apache-2.0
"""One row per change, stored from its beginning to its outcome."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import Plant, PlantTenant, linear, scan
from experiments.control_loop.world import World
from hypothesis import given
from hypothesis import strategies as st
from worlds import SIZES, fooled, looping, memory_change, moving, settles, until, world

from cachepilot.domain.decisions import Decision, Event, Reading, Setting
from cachepilot.domain.objectives.objective import Mode, Objective
from cachepilot.domain.past.change import (
    EVIDENCE_POINTS,
    ChangeFilter,
    ChangeKind,
    ChangeRow,
    ChangeState,
    EvidenceSeries,
)
from cachepilot.node.shown import change_log
from cachepilot.node.shown.change_log import ChangeLog

EVERYTHING = ChangeFilter()
MIB = 1 << 20


def rows(here: World, asked: ChangeFilter = EVERYTHING) -> list[ChangeRow]:
    """Return the rows, oldest first."""
    return here.store.changes(asked, 100)[::-1]


def test_a_change_that_is_confirmed_is_one_row_with_its_evidence(tmp_path: Path) -> None:
    here = world(tmp_path, looping())
    until(here, lambda: rows(here))
    (live,) = rows(here)
    assert (live.state, live.ended_s, live.outcome) == (ChangeState.LIVE, None, "")
    here.run(30)
    (row,) = rows(here)
    assert row.id == live.id
    assert (row.kind, row.state, row.by) == (ChangeKind.POLICY, ChangeState.CONFIRMED, "autopilot")
    assert (row.from_policy, row.to_policy, row.text) == ("default", "mru", "default → mru")
    assert row.ended_s is not None and row.ended_s > row.begun_s
    assert "saved" in row.outcome and "pages again" in row.why
    assert row.measured_ops is not None and row.predicted_ops is not None
    found = here.store.change(row.id)
    assert found is not None and found[1] is not None
    course = found[1]
    assert course.time_s[0] == row.begun_s and course.time_s[-1] == row.ended_s
    gained, bound = course.gained[-1], course.bound[-1]
    assert gained is not None and bound is not None and gained > bound


def test_a_change_that_is_undone_says_why_in_its_row(tmp_path: Path) -> None:
    here = world(tmp_path, fooled())
    here.run(40)
    (row,) = rows(here)
    assert row.state is ChangeState.UNDONE and "more than default would have" in row.outcome


def test_memory_that_moves_is_a_row_of_each_tenant(tmp_path: Path) -> None:
    here = moving(tmp_path)
    until(here, lambda: settles(here))
    assert {row.state for row in rows(here)} == {ChangeState.LIVE}
    until(here, lambda: memory_change(here) is None)
    found = {row.cgroup: row for row in rows(here)}
    assert len(rows(here)) == len(found) == 2
    assert {row.state for row in found.values()} == {ChangeState.CONFIRMED}
    assert found["/hungry"].to_limit_bytes == here.plant.of("/hungry").limit_bytes


def test_a_change_goes_on_in_the_same_row_after_a_restart(tmp_path: Path) -> None:
    here = moving(tmp_path)
    until(here, lambda: settles(here))
    here.loop.end()
    before = rows(here)
    known = here.store.change(before[0].id)
    here.restart()
    until(here, lambda: memory_change(here) is None)
    after = rows(here)
    assert [row.id for row in after] == [row.id for row in before]
    assert {row.state for row in after} == {ChangeState.CONFIRMED}
    found = here.store.change(before[0].id)
    assert found is not None and found[1] is not None and known is not None and known[1] is not None
    assert found[1].time_s[: len(known[1].time_s)] == known[1].time_s
    assert len(found[1].time_s) > len(known[1].time_s)


def test_a_change_whose_trial_is_lost_ends(tmp_path: Path) -> None:
    here = moving(tmp_path)
    until(here, lambda: settles(here))
    with here.store._transaction() as db:
        db.execute("UPDATE nodes SET guard = NULL")
        db.execute("DELETE FROM guard_tenants")
    here.restart()
    here.run(1)
    found = {row.state for row in rows(here) if row.epoch < here.loop.epoch}
    assert found == {ChangeState.ABANDONED}


def test_a_recommendation_is_open_until_the_next_one(tmp_path: Path) -> None:
    plant = Plant([looping()], 128 * MIB, SIZES)
    here = World(tmp_path, plant, [Objective("*", mode=Mode.RECOMMEND)])
    here.run(30)
    found = rows(here)
    assert {row.state for row in found} == {ChangeState.RECOMMENDED}
    assert [row.ended_s is None for row in found] == [False] * (len(found) - 1) + [True]


def test_a_refused_policy_is_one_row(tmp_path: Path) -> None:
    plant = Plant([looping()], 128 * MIB, SIZES)
    plant.refuse["/scan"] = "EPERM"
    here = World(tmp_path, plant)
    here.run(20)
    (row,) = rows(here)
    assert row.state is ChangeState.REFUSED and "EPERM" in row.outcome


def test_rows_of_a_tenant_that_is_gone_end(tmp_path: Path) -> None:
    curves = {"default": linear(200 * MIB), "mru": scan(200 * MIB)}
    here = world(tmp_path, looping(), PlantTenant("/other", curves, 128 * MIB))
    until(here, lambda: rows(here))
    here.plant.tenants = [one for one in here.plant.tenants if one.cgroup != "/scan"]
    here.run(40)
    (row,) = rows(here, ChangeFilter(cgroup="/scan"))
    assert row.state is ChangeState.ABANDONED and row.outcome == "the cgroup is gone"


def test_a_row_that_cannot_be_stored_is_stored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world(tmp_path, fooled())
    until(here, lambda: rows(here))

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(here.store, "save", full)
    here.run(40)
    assert rows(here)[0].state is ChangeState.LIVE
    monkeypatch.undo()
    here.run(2)
    assert rows(here)[0].state is ChangeState.UNDONE


SETTINGS = [
    Setting(policy, size * MIB) for policy in ("default", "lirs", "sieve") for size in (16, 20)
]
DECIDED = st.tuples(
    st.sampled_from(list(Event)), st.sampled_from(["/a", "/b"]),
    st.sampled_from(SETTINGS), st.sampled_from(SETTINGS),
)  # fmt: skip


@given(st.lists(st.lists(DECIDED, max_size=3), max_size=20))
def test_no_tenant_has_two_open_changes_of_a_kind(
    cycles: list[list[tuple[Event, str, Setting, Setting]]],
) -> None:
    log = ChangeLog("n")
    known: dict[int, ChangeRow] = {}
    for time_s, cycle in enumerate(cycles):
        told = [
            Decision(
                float(time_s),
                name,
                event,
                before,
                after,
                "w",
                predicted=Reading(ops=float(after.limit_bytes)),
            )
            for event, name, before, after in cycle
        ]
        log.take(told, time_s)
        for row, _ in log.unstored(False):
            known[id(row)] = row
        log.stored()
    open_rows = [(row.cgroup, row.kind) for row in known.values() if row.ended_s is None]
    assert len(open_rows) == len(set(open_rows))
    for row in known.values():
        assert (row.state is ChangeState.LIVE) <= (row.ended_s is None)
        assert row.text and row.why
        # What is predicted is of the limit beside it.
        assert row.predicted_ops == row.to_limit_bytes


def test_evidence_is_bounded_and_keeps_its_begin_and_its_end() -> None:
    course = EvidenceSeries("pages")
    for second in range(10_000):
        if course.is_due:
            course.take(float(second), 1.0, 2.0, None, None, None)
        else:
            course.skip()
        assert len(course.time_s) <= EVIDENCE_POINTS
    assert course.time_s[0] == 0.0 and course.time_s == sorted(course.time_s)
    assert course.time_s[-1] >= 9800.0 and len(course.time_s) == len(course.bound)


def test_rows_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "WAITING_MAX", 3)
    lost: list[int] = []
    log = ChangeLog("n", lost=lambda: lost.append(1))
    before, after = Setting("a", 1), Setting("b", 1)
    told = [Decision(float(i), f"/{i}", Event.TRIAL, before, after, "w") for i in range(9)]
    log.take(told, 1)
    assert [row.cgroup for row, _ in log.unstored(False)] == ["/6", "/7", "/8"]
    assert len(lost) == 6
