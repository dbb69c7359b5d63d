# SPDX-License-Identifier: Apache-2.0
"""The mover of rollouts: what it refuses, what it stores, and what it does after a restart."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from moved_fleet import drain, move, tenant

from cachepilot.domain.consolidation import Drain, Plans, Rest
from cachepilot.domain.moving import Moved, MoveState, RolloutState
from cachepilot.errors import ConflictError, InputError
from cachepilot.fleet.config import ControllerConfig
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.moving import mover as moving
from cachepilot.fleet.moving.folder import FolderProvider
from cachepilot.fleet.moving.mover import Mover
from cachepilot.fleet.moving.seen.looking import FleetSeen
from cachepilot.fleet.moving.seen.observation import NodeSeen
from cachepilot.fleet.moving.seen.patience import LOST_S, RETURN_S
from cachepilot.node.shown.report import Report
from cachepilot.sense.collect import not_scraped
from cachepilot.store.failures import StoreFailedError
from cachepilot.store.store import Store


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Return nodes `a` and `b` without snapshots yet. `/kv` is on `a`."""
    store = Store(tmp_path / "c.db")
    found = Fleet(ControllerConfig(store=tmp_path / "c.db"), store, not_scraped)
    for name in ("a", "b"):
        (tmp_path / "nodes" / name).mkdir(parents=True)
        found.join(name)
    (tmp_path / "nodes" / "a" / "kv.toml").write_text('cgroup = "/kv"\n')
    yield found
    store.close()


@pytest.fixture
def provider(tmp_path: Path) -> FolderProvider:
    return FolderProvider(tmp_path / "nodes")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limit_bytes": -4096}, "limit_bytes: -4096"),
        ({"limit_bytes": 1 << 62}, "limit_bytes: 4611686018427387904"),
        ({"cold_s": float("nan")}, "cold_s: nan"),
        ({"cold_s": 1e9}, "cold_s: 1000000000.0"),
        ({"cold_pages": -1}, "cold_pages: -1"),
        ({"to_node": "c"}, "node c: unknown"),
        ({"to_node": "a"}, "moves once, to another node"),
        ({"from_node": "b", "to_node": "a"}, "/kv: goes from b to a"),
        ({"cgroup": "/none"}, "/none is on no node, not on a"),
    ],
)
def test_moves_that_no_plan_has_are_refused(
    fleet: Fleet, provider: FolderProvider, changes: dict[str, object], words: str
) -> None:
    mover = Mover(fleet, provider)
    bad = replace(move("/kv"), **changes)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words):
        mover.begin([Drain("a", (bad,), 0)])
    assert mover.rollout is None and fleet.store.last_rollout() is None


def test_no_tenant_moves_without_a_provider_or_twice(
    fleet: Fleet, provider: FolderProvider
) -> None:
    with pytest.raises(InputError, match=r"allowed: with .consolidation. folder"):
        Mover(fleet, None).begin([drain("/kv")])
    with pytest.raises(InputError, match="moves once"):
        Mover(fleet, provider).begin([drain("/kv"), drain("/kv")])
    with pytest.raises(InputError, match="0 moves"):
        Mover(fleet, provider).begin([])


def test_one_rollout_runs_at_a_time_outlives_its_controller_and_is_stopped(
    fleet: Fleet, provider: FolderProvider
) -> None:
    mover = Mover(fleet, provider)
    with pytest.raises(ConflictError, match="no rollout runs"):
        mover.stop()
    begun = mover.begin([drain("/kv")])
    with pytest.raises(ConflictError, match="rollout 1 runs"):
        mover.begin([drain("/kv")])
    mover.tick()
    again = Mover(fleet, provider)
    assert again.rollout == fleet.store.last_rollout() != begun, "it waits for its nodes"
    assert again.rollout is not None and again.rollout.why == "node a: was never seen"
    again.stop()
    again.tick()
    assert again.rollout.state is RolloutState.STOPPED
    assert provider.where("/kv") == "a"
    assert again.begin([drain("/kv")]).id == 2


def test_a_node_does_not_take_tenants_in_and_is_drained(
    fleet: Fleet, provider: FolderProvider, tmp_path: Path
) -> None:
    fleet.join("c")
    (tmp_path / "nodes" / "b" / "db.toml").write_text('cgroup = "/db"\n')
    other = replace(move("/db"), from_node="b", to_node="c")
    with pytest.raises(InputError, match="/kv: goes from a to b "):
        Mover(fleet, provider).begin([drain("/kv"), Drain("b", (other,), 0)])


def _seen(ops: float | None = 100.0) -> dict[str, NodeSeen]:
    there = {"/kv": replace(tenant(), ops=ops)}
    return {"a": NodeSeen(1.0, there), "b": NodeSeen(1.0, {})}


def _show(monkeypatch: pytest.MonkeyPatch, shown: Callable[[], Mapping[str, NodeSeen]]) -> None:
    """Set what every look at the fleet finds."""
    monkeypatch.setattr(moving, "node_seen", lambda name, _: shown()[name])
    monkeypatch.setattr(moving, "fleet_seen", lambda *_: FleetSeen(shown(), []))


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_controller_that_starts_between_two_moves_plans_once_it_saw_their_nodes(
    fleet: Fleet, provider: FolderProvider, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    now_s, asked = 1000.0, list[Rest]()
    begun = Mover(fleet, provider, lambda: now_s).begin([drain("/kv")])
    kept = Moved(move("/db"), "a", MoveState.KEPT)
    fleet.store.save_rollout(replace(begun, moves=(kept, *begun.moves), at=1, is_planned=False))
    again = Mover(fleet, provider, lambda: now_s)

    def plan(rest: Rest, _: Sequence[Report]) -> Plans:
        asked.append(rest)
        return Plans(rest.drains if comes_back else (), ())

    again.plan = plan
    for _ in range(3):
        again.tick()
        now_s += 1.0
    running = again.rollout
    assert running is not None and not running.is_planned and not asked
    assert running.why == "node a: was never seen"
    if comes_back:
        shown = _seen(None)
        _show(monkeypatch, lambda: shown)
        again.tick()
        assert not asked and again.rollout is not None
        assert again.rollout.why == "node a: nothing is measured of /kv"
        shown = _seen()
        now_s += 1.0
        again.tick()
        assert [one.drains[0].moves for one in asked] == [(move("/kv"),)]
        assert again.rollout.is_planned and fleet.store.last_rollout() == again.rollout
        return
    while again.rollout is not None and not again.rollout.is_over:
        now_s += 1.0
        again.tick()
        assert now_s < 1000.0 + 2 * LOST_S
    assert again.rollout is not None and again.rollout.state is RolloutState.STOPPED
    assert again.rollout.why.startswith("a is not drained: node a: was never seen (/db moved")


@pytest.mark.parametrize("state", [MoveState.WARMING, MoveState.RETURNING])
def test_time_in_which_no_controller_watched_counts_for_no_time_out(
    fleet: Fleet, provider: FolderProvider, state: MoveState
) -> None:
    now_s = 1000.0
    mover = Mover(fleet, provider, lambda: now_s)
    mover.begin([drain("/kv")])
    mover.tick()
    running = mover.rollout
    assert running is not None and running.since_s == now_s
    moved = replace(running.moves[0], state=state, why="an SLO was missed")
    fleet.store.save_rollout(replace(running, moves=(moved,)))
    provider.move("/kv", "a", "b")
    now_s += 10 * RETURN_S
    again = Mover(fleet, provider, lambda: now_s)
    for _ in range(3):
        again.tick()
        assert again.rollout is not None and again.rollout.state is RolloutState.RUNNING
        assert again.rollout.moves[0].state is state
        now_s += 1.0
    told = again.rollout.why if again.rollout else ""
    assert told == "node a: was never seen", "it is moved back once that is there"


def test_an_end_that_could_not_be_stored_is_stored_later(
    fleet: Fleet, provider: FolderProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    mover = Mover(fleet, provider)
    begun = mover.begin([drain("/kv")])
    moved = replace(begun.moves[0], state=MoveState.RETURNING, why="an SLO was missed")
    returning = Mover(fleet, provider)
    returning._rollout = replace(begun, moves=(moved,), since_s=fleet.store.now_s())
    fleet.store.save_rollout(returning._rollout)

    def full(_: object) -> None:
        raise StoreFailedError("c.db: cannot be written: disk is full", is_full=True)

    with monkeypatch.context() as broken:
        broken.setattr(fleet.store, "save_rollout", full)
        returning.tick()
        assert returning.rollout is not None and returning.rollout.is_over
    stored = fleet.store.last_rollout()
    assert stored is not None and not stored.is_over
    returning.tick()
    assert fleet.store.last_rollout() == returning.rollout


def test_the_provider_lists_pages_and_drops_them_if_no_tenant_moves(
    fleet: Fleet, provider: FolderProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Mover(fleet, provider, lambda: 1000.0).begin([drain("/kv")])
    going = replace(begun.moves[0], state=MoveState.PREPARING, prepared_s=1000.0)
    fleet.store.save_rollout(replace(begun, moves=(going,), rehearses=False, preparing_s=60.0))
    _show(monkeypatch, _seen)
    again = Mover(fleet, provider, lambda: 1000.0)
    again.tick()
    assert (tmp_path / "nodes" / "a" / "kv.list").read_text() == "4096\n"
    (tmp_path / "nodes" / "b" / "kv.warm").write_text("")
    again.stop()
    again.tick()
    assert again.rollout is not None and again.rollout.state is RolloutState.STOPPED
    assert [one.name for one in (tmp_path / "nodes").rglob("kv.*")] == ["kv.toml"]


def test_the_time_for_reading_pages_is_that_of_the_configuration(
    tmp_path: Path, fleet: Fleet, provider: FolderProvider
) -> None:
    assert Mover(fleet, provider).begin([drain("/kv")]).preparing_s == 0.0
    fleet.config = replace(fleet.config, preparing_s=60.0)
    again = Mover(fleet, provider)
    again.stop()
    again.tick()
    assert again.begin([drain("/kv")]).preparing_s == 60.0
