# SPDX-License-Identifier: Apache-2.0
"""Before the rest of a rollout is planned, it must be known which tenants are on its nodes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from moved_fleet import move, tenant

from cachepilot.domain.consolidation import Drain, Plans, Rest
from cachepilot.domain.moving import Moved, MoveState, Rollout, RolloutState
from cachepilot.fleet.config import ControllerConfig
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.moving import mover as moving
from cachepilot.fleet.moving.folder import FolderProvider
from cachepilot.fleet.moving.mover import Mover
from cachepilot.fleet.moving.seen.looking import FleetSeen, fleet_seen
from cachepilot.fleet.moving.seen.observation import NodeSeen
from cachepilot.fleet.moving.seen.patience import LOST_S, lost_s
from cachepilot.node.shown.report import Report
from cachepilot.sense.collect import not_scraped
from cachepilot.store.failures import StoreFailedError
from cachepilot.store.store import Store


@dataclass
class Between:
    """A rollout after its first move: `/db` left `a`, and `/kv` and `/web` are to leave it."""

    folder: Path
    mover: Mover
    now: list[float]
    shown: dict[str, list[str]]
    """By node, the tenants in its last snapshot."""
    rests: list[Rest] = field(default_factory=list)

    @property
    def rollout(self) -> Rollout:
        found = self.mover.rollout
        assert found is not None
        return found

    def seen(self) -> Mapping[str, NodeSeen]:
        return {
            node: NodeSeen(self.now[0], {one: tenant() for one in names})
            for node, names in self.shown.items()
        }

    def plan(self, rest: Rest, _: Sequence[Report]) -> Plans:
        """Plan all tenants seen on nodes that are to be drained to go to `b`."""
        self.rests.append(rest)
        drains = [
            Drain(node, tuple(replace(move(one), from_node=node) for one in self.shown[node]), 0)
            for node in sorted(rest.drainable)
        ]
        return Plans(drains, drains)

    def define(self, node: str, cgroup: str) -> None:
        (self.folder / node / f"{cgroup[1:]}.toml").write_text(f'cgroup = "{cgroup}"\n')

    def tick(self, until: Callable[[Rollout], bool]) -> float:
        """Tick until this holds, and return the seconds."""
        begun_s = self.now[0]
        while not until(self.rollout):
            assert self.now[0] < begun_s + 2 * lost_s(self.mover.interval_s), self.rollout
            self.now[0] += self.mover.interval_s
            self.mover.tick()
        return self.now[0] - begun_s


@pytest.fixture
def interval_ms() -> int:
    return 1000


@pytest.fixture
def between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval_ms: int) -> Iterator[Between]:
    now = [1000.0]
    store = Store(tmp_path / "c.db")
    config = ControllerConfig(store=tmp_path / "c.db", interval_ms=interval_ms)
    fleet = Fleet(config, store, not_scraped)
    for name in ("a", "b", "c"):
        (tmp_path / "nodes" / name).mkdir(parents=True)
        fleet.join(name)
    moves = (
        Moved(move("/db"), "a", MoveState.KEPT),
        *(Moved(move(one), "a") for one in ("/kv", "/web")),
    )
    store.save_rollout(Rollout(1, 0.0, "alice", moves, at=1, is_planned=False))
    provider = FolderProvider(tmp_path / "nodes")
    mover = Mover(fleet, provider, lambda: now[0])
    found = Between(tmp_path / "nodes", mover, now, {"a": ["/kv", "/web"], "b": ["/db"], "c": []})
    mover.plan = found.plan
    for node, names in found.shown.items():
        for one in names:
            found.define(node, one)
    monkeypatch.setattr(moving, "node_seen", lambda name, _: found.seen()[name])
    monkeypatch.setattr(moving, "fleet_seen", lambda *_: FleetSeen(found.seen(), []))
    yield found
    store.close()


def test_a_tenant_that_one_snapshot_lacks_is_waited_for(between: Between) -> None:
    between.shown["a"] = ["/kv"]
    between.tick(lambda rollout: rollout.why != "")
    assert between.rollout.why == "node a: /web is not in its last snapshot"
    assert not between.rests
    between.shown["a"] = ["/kv", "/web"]
    between.tick(lambda rollout: rollout.is_planned)
    going = [one.move.cgroup for one in between.rollout.going("a")]
    assert going == ["/kv", "/web"] and not between.rollout.changes


def test_a_node_whose_tenant_stays_unseen_is_given_up_and_is_not_empty(between: Between) -> None:
    between.shown["a"] = ["/kv"]
    waited_s = between.tick(lambda rollout: rollout.is_over)
    assert LOST_S < waited_s < LOST_S + 5
    told = "a is not drained: /web is on it, and its agent does not show it"
    assert between.rollout.changes == (told,) and between.rollout.emptied == []
    assert between.rollout.state is RolloutState.STOPPED


@pytest.mark.parametrize("interval_ms", [30_000, 60_000])
def test_a_wait_ends_for_any_interval(between: Between, interval_ms: int) -> None:
    between.shown["a"] = ["/kv"]
    waited_s = between.tick(lambda rollout: rollout.is_over)
    assert waited_s > lost_s(interval_ms / 1000)


@pytest.mark.parametrize("where", ["", "c"])
def test_a_tenant_that_the_provider_has_elsewhere_is_left_out_with_a_note(
    between: Between, where: str
) -> None:
    between.shown["a"] = ["/kv"]
    (between.folder / "a" / "web.toml").unlink()
    if where:
        between.define(where, "/web")
    waited_s = between.tick(lambda rollout: rollout.is_planned)
    assert LOST_S < waited_s < LOST_S + 5, "its file may be on its way"
    assert [one.move.cgroup for one in between.rollout.going("a")] == ["/kv"]
    told = "it is on c" if where else "no node has it"
    assert between.rollout.changes == (f"/web is not moved from a: {told}",)


def test_a_node_whose_tenants_all_ended_is_not_drained(between: Between) -> None:
    between.shown["a"] = []
    for name in ("kv", "web"):
        (between.folder / "a" / f"{name}.toml").unlink()
    between.tick(lambda rollout: rollout.is_over)
    assert between.rollout.changes == ("a is not drained: its tenants are not there any more",)


def test_an_ambiguous_answer_of_the_provider_prevents_a_drain(between: Between) -> None:
    between.shown["a"] = ["/kv"]
    between.define("c", "/web")
    between.tick(lambda rollout: rollout.is_over)
    assert between.rollout.why.startswith("a is not drained: it is not known where /web is: /web:")


def test_a_new_tenant_moves_with_the_others_once_the_provider_has_it(between: Between) -> None:
    between.shown["a"].append("/new")
    between.tick(lambda rollout: rollout.why != "")
    told = "/new came to it, and the provider has it on no node"
    assert between.rollout.why == f"node a: {told}"
    between.define("a", "/new")
    between.tick(lambda rollout: rollout.is_planned)
    assert between.rollout.changes == ("/new on a came later, and goes to b",)


def test_a_new_tenant_without_a_definition_ends_only_the_drain_of_its_node(
    between: Between,
) -> None:
    between.shown["a"].append("/transient")
    moved = Moved(replace(move("/other"), from_node="c"), "c")
    between.shown["c"] = ["/other"]
    between.define("c", "/other")
    between.mover._rollout = replace(between.rollout, moves=(*between.rollout.moves, moved))
    between.tick(lambda rollout: rollout.is_planned)
    told = "a is not drained: /transient came to it, and the provider has it on no node"
    assert between.rollout.changes == (told,) and not between.rollout.is_over
    assert [one.move.cgroup for one in between.rollout.going("c")] == ["/other"]


@pytest.mark.parametrize("is_unseen", [True, False])
def test_room_is_left_to_nodes_that_can_be_drained_and_none_is_taken_where_a_tenant_is_unseen(
    between: Between, is_unseen: bool
) -> None:
    """`a` is refused before the rest is planned. The next time it takes no tenant in either."""
    left = [Moved(move(one), "a") for one in ("/kv", "/web")]
    other = Moved(replace(move("/other"), from_node="c"), "c")
    between.mover._rollout = replace(between.rollout, moves=(*left, other), at=0)
    between.shown |= {"a": ["/kv"] if is_unseen else ["/kv", "/web", "/new"], "c": ["/other"]}
    between.define("c", "/other")
    for _ in range(2):
        between.tick(lambda rollout: rollout.is_planned)
        assert [one.move.cgroup for one in between.rollout.going("c")] == ["/other"]
        rest = between.rests[-1]
        assert rest.drainable == {"c"}
        assert rest.closed == ({"a"} if is_unseen else set())
        between.mover._rollout = replace(between.rollout, is_planned=False)
    assert len(between.rests) == 2


def test_a_plan_that_cannot_be_stored_is_not_made_repeatedly(
    between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreFailedError("c.db: cannot be written: disk is full", is_full=True)

    with monkeypatch.context() as broken:
        broken.setattr(Store, "save_rollout", full)
        for _ in range(5):
            between.now[0] += 1.0
            between.mover.tick()
        assert len(between.rests) == 1 and not between.rollout.is_planned
    between.tick(lambda rollout: rollout.is_planned)
    assert len(between.rests) == 2


class _Fresh:
    """A node that becomes stale after the first look."""

    looks = 0

    @property
    def why(self) -> str:
        self.looks += 1
        return "" if self.looks == 1 else "stale"


def test_a_node_is_looked_at_once() -> None:
    report = SimpleNamespace(collected=SimpleNamespace(seen={}, time_s=1.0))
    loop = SimpleNamespace(report=report, freshness=_Fresh(), connected=True)
    found = fleet_seen(["a"], {"a": loop})  # type: ignore[dict-item]
    assert not found.nodes["a"].lost and list(found.fresh) == [report]
