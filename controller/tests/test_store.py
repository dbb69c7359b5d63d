# SPDX-License-Identifier: Apache-2.0
"""The store is bounded, and consistent after a kill at any time."""

import itertools
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cachepilot.domain.decisions import Decision, Event, Setting
from cachepilot.domain.objectives.objective import Goal, Mode, Objective, Objectives
from cachepilot.domain.objectives.pins import Pin
from cachepilot.domain.slos import SloMinute
from cachepilot.domain.units import DAY_S
from cachepilot.sizes import parse_size
from cachepilot.store import history as history_module
from cachepilot.store.failures import StoreError
from cachepilot.store.history import history_query
from cachepilot.store.pruning import ROWS
from cachepilot.store.store import Store

WRITER = """
import sys
from pathlib import Path
from cachepilot.domain.decisions import Decision, Event, Setting
from cachepilot.node.shown.slo_windows import SloMinute
from cachepilot.store.store import Store

store = Store(Path(sys.argv[1]))
first, _ = store.reserve_epochs("n", 0)
for i in range(first, first + 10**6):
    one = Decision(float(i), "/a", Event.TRIAL, Setting("x", 1), Setting("y", 2), "w" * 2000)
    store.save("n", i, float(i), [one, one], str(i), [SloMinute("/a", "hit_ratio", 0, i, i)])
    print(i, flush=True)
"""


def decision(time_s: float, cgroup: str = "/a") -> Decision:
    return Decision(time_s, cgroup, Event.KEPT, Setting("a", 1), Setting("b", 2), "because")


def test_a_kill_leaves_all_of_a_cycle_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    epoch = 0
    for kill_after in (1, 7, 20):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            told = [int(writer.stdout.readline()) for _ in range(kill_after)]
            writer.send_signal(signal.SIGKILL)
        assert told[0] > epoch
        store = Store(path)
        row = store.nodes()[0]
        assert row.state is not None and int(row.state) >= told[-1]
        epoch = int(row.state)
        assert row.last_seen_s == epoch and row.epoch >= epoch
        history = store.history(None, None, 100)
        assert [one.epoch for one in history[:2]] == [epoch, epoch]
        assert len(store.history(None, None, 10**6)) % 2 == 0
        assert store.windows("n") == [SloMinute("/a", "hit_ratio", 0, epoch, epoch)]
        store.close()


def test_objectives_and_pins_survive_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db")
    assert store.objectives() is None
    asked = Objectives(
        (
            Objective("/a", hit_ratio=0.5, memory_min=parse_size("10%"), mode=Mode.RECOMMEND),
            Objective("*", policies=("lfu",)),
        ),
        Goal.LEAST_MEMORY,
    )
    pins = [
        Pin(cgroup="/a", policy="lfu"),
        Pin(cgroup="/a", node="n", limit_bytes=4096, until_s=5.5),
    ]
    store.set_objectives(asked)
    for pin in (*pins, *pins):
        store.set_pin(pin)
    store.close()
    store = Store(tmp_path / "c.db")
    assert store.objectives() == asked
    assert store.pins() == pins
    assert store.delete_pin("/a", "n") and not store.delete_pin("/a", "n")
    assert store.pins() == pins[:1]


@pytest.mark.parametrize("policy", [None, "lfu", "mru"])
def test_an_end_is_that_of_the_pin_that_it_was_stored_with(
    tmp_path: Path, policy: str | None
) -> None:
    """An earlier controller, which does not know ends, replaces the pin."""
    store = Store(tmp_path / "c.db")
    ends = Pin(cgroup="/a", policy="lru", until_s=5.5)
    store.set_pin(ends)
    assert store.pins() == [ends]
    with sqlite3.connect(tmp_path / "c.db") as other:
        other.execute("INSERT OR REPLACE INTO pins VALUES ('', '/a', ?, 4096)", (policy,))
    assert store.pins() == [Pin(cgroup="/a", policy=policy, limit_bytes=4096)]
    store.close()


def test_epochs_are_never_used_twice_and_exceed_those_of_the_node(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db")
    first, end = store.reserve_epochs("n", 0)
    assert (first, store.reserve_epochs("n", 0)[0]) == (1, end)
    assert store.reserve_epochs("n", 10**9)[0] == 10**9 + 1
    assert store.reserve_epochs("m", 0)[0] == 1


def test_history_is_filtered_the_newest_first_and_dropped_when_old(tmp_path: Path) -> None:
    now_s = [0.0]
    store = Store(tmp_path / "c.db", keep_days=2, clock=lambda: now_s[0])
    store.reserve_epochs("n", 0)
    store.save("n", 1, 1.0, [decision(1, "/a"), decision(1, "/b")])
    store.save_record("n", 1, b"data")
    now_s[0] = 1.5 * DAY_S
    store.save("n", 2, 2.0, [decision(2, "/a")])
    found = store.history("/a", "n", 10)
    assert [(one.cgroup, one.epoch) for one in found] == [("/a", 2), ("/a", 1)]
    assert len(store.history(None, None, 2)) == 2 and store.history(None, "m", 2) == []
    assert store.record("n", 1) == b"data"
    now_s[0] = 3 * DAY_S
    store.prune()
    assert [one.epoch for one in store.history(None, None, 10)] == [2]
    assert store.record("n", 1) is None


def _plan(path: Path, *asked: str | int | None) -> str:
    """Return SQLite's query plan for a cgroup, node, number and event."""
    cgroup, node, before, event = asked
    query, values = history_query(cgroup, node, 5, before, event)  # type: ignore[arg-type]
    with sqlite3.connect(path) as db:
        return "; ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query}", values))


def test_history_reads_what_it_answers_however_it_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    Store(path).close()
    with sqlite3.connect(path) as db:
        names = db.execute("SELECT name FROM sqlite_master WHERE name LIKE 'decisions_of_%'")
        for (name,) in names.fetchall():
            db.execute(f"DROP INDEX {name}")
    # A file from before these indexes gets them.
    store = Store(path)
    for number in range(40):
        what = Event.KEPT if number % 2 else Event.TRIAL
        one = Decision(number, f"/{number % 3}", what, Setting("a", 1), Setting("b", 2), "w")
        store.save(f"n{number % 4}", number, 0.0, [one])
    every = store.history(None, None, 100)
    parts = (None, "/1"), (None, "n1"), (None, 30), (None, "kept")
    for cgroup, node, before, event in itertools.product(*parts):
        found = _plan(path, cgroup, node, before, event)
        assert "TEMP B-TREE" not in found
        # Without any condition it scans from the last row up to the limit.
        bare = all(one is None for one in (cgroup, node, before, event))
        assert found.startswith("SCAN" if bare else "SEARCH"), found
        wanted = [
            one.id
            for one in every
            if cgroup in (None, one.cgroup)
            and node in (None, one.node)
            and (before is None or one.id < before)
            and event in (None, one.event)
        ]
        assert [one.id for one in store.history(cgroup, node, 5, before, event)] == wanted[:5]


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        (("/a", None, None, None), "decisions_of_cgroup (cgroup=?)"),
        ((None, "n", None, None), "decisions_of_node (node=?)"),
        ((None, None, None, "kept"), "decisions_of_event (event=?)"),
        ((None, "n", 7, "kept"), "decisions_of_node_and_event (node=? AND event=? AND id<?)"),
        (("/a", "n", 7, None), "decisions_of (cgroup=? AND node=? AND id<?)"),
    ],
)
def test_history_has_an_index(tmp_path: Path, asked: tuple[str | None, ...], index: str) -> None:
    Store(tmp_path / "c.db").close()
    assert index in _plan(tmp_path / "c.db", *asked)


def _steps_to_prune(path: Path, tenants: int) -> int:
    """Return thousands of SQLite steps to prune tenants with three SLOs and 70 minutes."""
    store = Store(path / f"{tenants}.db")
    store.reserve_epochs("n", 0)
    named = itertools.product((f"/{i}" for i in range(tenants)), "xyz", range(70))
    store.save("n", 1, 1.0, windows=[SloMinute(*one, 1, 1) for one in named])
    steps = itertools.count()
    store._db.set_progress_handler(lambda: 0 * next(steps), 1000)
    store.prune()
    store._db.set_progress_handler(None, 0)
    assert {row.minute for row in store.windows("n")} == set(range(10, 70))
    store.close()
    return next(steps)


def test_windows_are_dropped_in_a_time_in_proportion_to_their_number(tmp_path: Path) -> None:
    few, many = (_steps_to_prune(tmp_path, tenants) for tenants in (10, 40))
    assert few < many <= 6 * few, (few, many)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    path.write_text("not a database, " * 100)
    with pytest.raises(StoreError, match=r"c\.db: cannot be opened"):
        Store(path)


class _Held:
    """A lock that records how many rows each thread changed while it was locked."""

    def __init__(self, store: Store) -> None:
        self._lock, self._store = store._lock, store
        self._began = 0
        self.rows: list[tuple[str, int]] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        self._began = self._store._db.total_changes

    def __exit__(self, *_: object) -> None:
        rows = self._store._db.total_changes - self._began
        self.rows.append((threading.current_thread().name, rows))
        self._lock.release()


def _with_history(path: Path, count: int) -> Store:
    """Return a store with so many decisions and records of day 1, and a few of day 3."""
    now_s = [0.0]
    store = Store(path, keep_days=2, clock=lambda: now_s[0])
    store.reserve_epochs("n", 0)
    store.save("n", 1, 1.0, [decision(1, "/a")] * count)
    with store._transaction() as db:
        rows = [("n", epoch, 0.0, b"") for epoch in range(count)]
        db.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
    now_s[0] = 3 * DAY_S
    store.save("n", 2, 2.0, [decision(2, "/a")] * 5)
    for epoch in range(5):
        store.save_record("n", count + epoch, b"young")
    return store


def test_pruning_holds_the_lock_only_for_a_few_rows(tmp_path: Path) -> None:
    count = 7 * ROWS + 11
    store = _with_history(tmp_path / "c.db", count)
    held = _Held(store)
    store._lock = held  # type: ignore[assignment]
    pruning = threading.Thread(target=store.prune, name="pruning")
    pruning.start()
    while pruning.is_alive():
        store.save("n", 3, 3.0)
    rows = [rows for name, rows in held.rows if name == "pruning"]
    assert max(rows) == ROWS and sum(rows) == 2 * count
    # Cycles were stored in between.
    full = [i for i, one in enumerate(held.rows) if one == ("pruning", ROWS)]
    first, last = full[0], full[-1]
    assert sum(name != "pruning" for name, _ in held.rows[first:last]) >= 7
    assert [one.epoch for one in store.history(None, None, 10)] == [2] * 5
    assert [store.record("n", count + epoch) for epoch in (-1, 0, 4)] == [None, b"young", b"young"]
    store._lock = held._lock
    store.close()


def test_there_is_a_bound_on_decisions_and_on_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "c.db")
    store.reserve_epochs("n", 0)
    for epoch in range(10):
        store.save("n", epoch, 1.0, [decision(epoch, "/a")])
        store.save_record("n", epoch, b"data")
    monkeypatch.setattr(history_module, "DECISIONS_MAX", 6)
    monkeypatch.setattr(history_module, "RECORDS_MAX", 3)
    store.prune()
    assert [one.epoch for one in store.history(None, None, 20)] == [9, 8, 7, 6, 5, 4]
    kept = [epoch for epoch in range(10) if store.record("n", epoch) is not None]
    assert kept == [7, 8, 9]
    store.close()
