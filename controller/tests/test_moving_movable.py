# SPDX-License-Identifier: Apache-2.0
"""No tenant is planned to move unless the provider has it on its node."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_tenants import loop_of, node_of, past_of

from cachepilot.api.fleet_service import ControlService
from cachepilot.api.shapes.rollout import Consolidate
from cachepilot.domain.consolidation import Rest
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.errors import InputError
from cachepilot.fleet.config import ControllerConfig
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.moving.folder import FolderProvider
from cachepilot.fleet.moving.mover import Mover
from cachepilot.sense.collect import not_scraped
from cachepilot.store.store import Store

SOON = -92


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """Create the provider's folder, with three tenants on `a`."""
    for name in "ab":
        (tmp_path / "nodes" / name).mkdir(parents=True)
    for name in ("db", "mail", "web"):
        (tmp_path / "nodes" / "a" / f"{name}.toml").write_text(f'cgroup = "/{name}"\n')
    return tmp_path / "nodes"


@pytest.fixture
def service(nodes: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlService]:
    """Return a service in which `/web` would leave for `b`, or else both other tenants."""
    small = [loop_of(f"/{name}", 32, 80) for name in ("db", "mail", "web")]
    shown = [node_of("a", 256, *small), node_of("b", 256)]
    needed = {
        ("a", f"/{name}"): replace(past_of({SOON: more}, 0.0), moved=np.array([True]))
        for name, more in (("db", 38), ("mail", 28), ("web", 168))
    }
    store = Store(nodes / "c.db")
    fleet = Fleet(ControllerConfig(store=nodes / "c.db"), store, not_scraped)
    found = ControlService(fleet, Mover(fleet, FolderProvider(nodes)))
    told = shown, Objectives((Objective("*"),))
    monkeypatch.setattr(found, "_planned_with", lambda _: told)
    monkeypatch.setattr(found, "_needed", lambda *_, **__: needed)
    yield found
    store.close()


@pytest.mark.parametrize("where", ["a", "b", "both", "none"])
def test_a_tenant_that_the_provider_does_not_have_stays(
    service: ControlService, nodes: Path, where: str
) -> None:
    file, text = nodes / "a" / "web.toml", 'cgroup = "/web"\n'
    if where in ("b", "both"):
        (nodes / "b" / "web.toml").write_text(text)
    if where in ("b", "none"):
        file.unlink()
    go = {"/web"} if where == "a" else {"/db", "/mail"}
    found = service.spread()
    assert {move.cgroup for one in found.drains for move in one.moves} == go
    told = "/web on a cannot be moved: the program that moves tenants does not have it there"
    assert (told in found.notes) == (where != "a")
    rest = Rest((), frozenset("a"), frozenset(), {}, spreads=True)
    plans = service._left(rest, [])
    assert {move.cgroup for one in plans.anew for move in one.moves} == go


@pytest.fixture
def packed(nodes: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlService]:
    """Return a service in which node `a` could be drained into `c`, and `b` as well."""
    for name in "bc":
        (nodes / name).mkdir(exist_ok=True)
    (nodes / "b" / "kv.toml").write_text('cgroup = "/kv"\n')
    small = [loop_of(f"/{name}", 16, 32) for name in ("db", "mail", "web")]
    shown = [
        node_of("a", 256, *small), node_of("b", 256, loop_of("/kv", 16, 32)),
        node_of("c", 1024, loop_of("/own", 512, 512)),
    ]  # fmt: skip
    store = Store(nodes / "c.db")
    fleet = Fleet(ControllerConfig(store=nodes / "c.db"), store, not_scraped)
    for name in "abc":
        fleet.join(name)
    found = ControlService(fleet, Mover(fleet, FolderProvider(nodes)))
    told = shown, Objectives((Objective("*"),))
    monkeypatch.setattr(found, "_planned_with", lambda _: told)
    monkeypatch.setattr(found, "_needed", lambda *_, **__: {})
    yield found
    store.close()


def test_a_node_with_a_tenant_that_cannot_be_moved_is_not_drained(
    packed: ControlService, nodes: Path
) -> None:
    assert {one.node for one in packed.consolidation().drains} == {"a", "b"}
    (nodes / "a" / "web.toml").unlink()
    found = packed.consolidation()
    assert [one.node for one in found.drains] == ["b"]
    told = "a: not drained, the program that moves tenants does not have there: /web"
    assert told in found.notes
    begun = packed.moving.begin(Consolidate())
    assert begun is not None and [one.move.cgroup for one in begun.moves] == ["/kv"]


def test_without_a_readable_folder_all_tenants_are_planned(
    packed: ControlService, nodes: Path
) -> None:
    nodes.rename(nodes.with_name("gone"))
    assert {one.node for one in packed.consolidation().drains} == {"a", "b"}
    with pytest.raises(InputError, match="cannot be read"):
        packed.moving.begin(Consolidate())
    nodes.with_name("gone").rename(nodes)


def test_nodes_that_are_empty_already_are_drained_without_a_rollout(
    packed: ControlService,
) -> None:
    drains = packed.consolidation().drains
    empty = [one.model_copy(update={"moves": ()}) for one in drains]
    assert packed.moving.begin(Consolidate(drains=empty)) is None
    assert packed.moving.rollout() is None
    begun = packed.moving.begin(Consolidate(drains=[empty[0], drains[1]]))
    assert begun is not None and {one.drain for one in begun.moves} == {drains[1].node}
