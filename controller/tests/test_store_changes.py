# SPDX-License-Identifier: Apache-2.0
"""Changes in the store: filtered, paged, completed, bounded."""

import json
from pathlib import Path

import pytest

from cachepilot.domain.past.change import (
    ChangeFilter,
    ChangeKind,
    ChangeRow,
    ChangeState,
    EvidenceSeries,
)
from cachepilot.domain.units import DAY_S
from cachepilot.store import changes as changes_module
from cachepilot.store.store import Store

LIVE, DONE = ChangeState.LIVE, ChangeState.DONE


def row(at: float, node: str = "n", cgroup: str = "/a", by: str = "autopilot") -> ChangeRow:
    found = ChangeRow(ChangeKind.POLICY, LIVE, node, cgroup, at, text="a → b", why="because")
    found.by_kind, found.by = ("autopilot" if by == "autopilot" else "token"), by
    return found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path / "c.db")
    several = [row(10.0), row(20.0, "m"), row(30.0, cgroup="/b"), row(40.0, by="Alice")]
    several[3].end(DONE, 41.0, "")
    found.save_changes([(one, None) for one in several])
    return found


@pytest.mark.parametrize(
    ("asked", "begun"),
    [
        (ChangeFilter(), [40, 30, 20, 10]),
        (ChangeFilter(node="n"), [40, 30, 10]),
        (ChangeFilter(cgroup="/a"), [40, 20, 10]),
        (ChangeFilter(node="n", cgroup="/a"), [40, 10]),
        (ChangeFilter(since_s=20.0), [40, 30, 20]),
        (ChangeFilter(since_s=20.0, until_s=30.0), [30, 20]),
        (ChangeFilter(by="alice"), [40]),
        (ChangeFilter(by="TOKEN"), [40]),
        (ChangeFilter(by="%"), []),
        (ChangeFilter(by="autopilot"), [30, 20, 10]),
        (ChangeFilter(state=DONE), [40]),
        (ChangeFilter(kind=ChangeKind.PIN), []),
        (ChangeFilter(below=3), [20, 10]),
    ],
)
def test_changes_are_filtered_and_counted(
    store: Store, asked: ChangeFilter, begun: list[int]
) -> None:
    assert [one.begun_s for one in store.changes(asked, 10)] == begun
    assert store.count_changes(asked) == len(begun)


def test_what_was_stated_for_all_nodes_is_among_the_changes_of_each(store: Store) -> None:
    pin = row(50.0, node="", by="Alice")
    store.save_changes([(pin, None)])
    for node, own in (("n", [40, 10]), ("m", [20])):
        asked = ChangeFilter(node=node, cgroup="/a")
        assert [one.begun_s for one in store.changes(asked, 10)] == [50, *own]
        assert store.count_changes(asked) == 1 + len(own)
    assert [one.begun_s for one in store.changes(ChangeFilter(node="m", cgroup="/b"), 10)] == []


def test_pages_follow_one_another(store: Store) -> None:
    first = store.changes(ChangeFilter(), 3)
    rest = store.changes(ChangeFilter(below=first[-1].id), 3)
    assert [one.begun_s for one in (*first, *rest)] == [40, 30, 20, 10]


def test_a_row_is_completed_and_keeps_its_evidence(store: Store) -> None:
    one, course = row(50.0), EvidenceSeries("pages")
    course.take(50.0, 1.0, 2.0, None, 4.0, 0.5)
    store.save_changes([(one, course)])
    one.end(ChangeState.CONFIRMED, 60.0, "it saved 5 pages")
    store.save_changes([(one, None)])
    assert store.change(one.id) == (one, course)
    assert store.count_changes(ChangeFilter()) == 5
    assert [live.id for live, _ in store.live_changes("n")] == [1, 3]


def test_evidence_that_an_earlier_version_stored_is_read(store: Store) -> None:
    one, evidence = row(1.0), EvidenceSeries("pages")
    evidence.take(1.0, 2.0, 3.0, None, None, None)
    store.save_changes([(one, evidence)])
    columns = {
        "promised" if key == "predicted" else key: vars(evidence)[key] for key in vars(evidence)
    }
    with store._transaction() as db:
        db.execute("UPDATE changes SET evidence = ?", (json.dumps(columns),))
    found = store.change(one.id)
    assert found is not None and found[1] == evidence


def test_a_change_that_cannot_be_written_gets_no_id(store: Store) -> None:
    good, bad = row(1.0), row(2.0)
    bad.text = None  # type: ignore[assignment]
    with pytest.raises(Exception, match="NOT NULL"):
        store.save_changes([(good, None), (bad, None)])
    assert (good.id, bad.id) == (0, 0) and store.count_changes(ChangeFilter()) == 4


def test_old_rows_and_rows_beyond_the_bound_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    store = Store(tmp_path / "c.db", keep_days=1.0, clock=lambda: now[0])
    store.save_changes([(row(1.0), None)])
    now[0] += 2 * DAY_S
    store.save_changes([(row(float(at)), None) for at in range(10, 20)])
    monkeypatch.setattr(changes_module, "CHANGES_MAX", 4)
    store.prune()
    assert [one.begun_s for one in store.changes(ChangeFilter(), 99)] == [19, 18, 17, 16]


def test_changes_of_a_node_that_is_forgotten_go_with_it(store: Store) -> None:
    store.forget("n")
    assert [one.node for one in store.changes(ChangeFilter(), 99)] == ["m"]
