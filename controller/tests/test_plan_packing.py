# SPDX-License-Identifier: Apache-2.0
"""Packings: the heuristic is feasible, the exact program no worse, and every rule holds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from drained_fleets import CAPACITIES, EVERYBODY, fleet_of, moves_of
from hypothesis import given, settings
from hypothesis import strategies as st

from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.snapshot import Snapshot
from cachepilot.errors import InputError
from cachepilot.plan.consolidation.consolidate import consolidate, places_of
from cachepilot.plan.consolidation.packing import exact
from cachepilot.plan.consolidation.packing.best_fit import BestFit
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds
from cachepilot.plan.consolidation.packing.options import Options
from cachepilot.plan.consolidation.packing.pack import loads_of, most_by_memory, pack
from cachepilot.plan.consolidation.packing.packing import Packing
from cachepilot.plan.consolidation.packing.rules import Rules
from cachepilot.plan.problem.config import Config
from cachepilot.sizes import parse_size


def _rules(needs: FleetNeeds) -> Rules:
    own = [needs.rows(node) for node in range(len(needs.places))]
    return Rules.of(needs.places, own, [() for _ in needs.places])


def _is_feasible(needs: FleetNeeds, packing: Packing) -> bool:
    """Whether the packing is feasible, computed node by node from each tenant's need."""
    stays = set(range(len(needs.places))) - set(packing.drained)
    come: dict[int, list[int]] = {node: [] for node in stays}
    for tenant, node in packing.to.items():
        come[node].append(tenant)
    for node, guests in come.items():
        if not guests:
            continue
        place = needs.places[node]
        device = place.snapshot.device
        everybody = [*needs.rows(node), *guests]
        must = [one for one in needs.rows(node) if needs.must[one]]
        fine = any(
            time >= device.miss_cost_us
            and needs.size_bytes[at, everybody].sum() <= place.table.budget_bytes
            and needs.device_iops[at, everybody].sum() <= device.capacity_iops * (1 + 1e-6)
            and needs.kept[at, [*must, *guests]].all()
            for at, time in enumerate(needs.read_us)
        )
        if not fine:
            return False
    return True


@settings(max_examples=10)
@given(st.integers(0, 10_000), st.integers(2, 5), st.sampled_from(CAPACITIES), st.integers(0, 1))
def test_the_heuristic_is_feasible_and_the_program_no_worse(
    seed: int, nodes: int, capacity: float, spare: int
) -> None:
    places = places_of(fleet_of(seed, nodes, capacity), EVERYBODY, Config())
    needs = FleetNeeds.of(places)
    rules = _rules(needs)
    loads = loads_of(needs, Options())
    found = BestFit(needs, loads, rules, spare).pack()
    moved = {tenant for node in found.drained for tenant in needs.rows(node)}
    assert set(found.to) == moved
    assert set(found.to.values()).isdisjoint(found.drained)
    assert _is_feasible(needs, found)
    best = exact.solve(needs, loads, rules, len(found.drained))
    packed = pack(places, Options(spare_nodes=spare))
    assert packed is not None
    assert len(packed.packing.drained) >= len(found.drained)
    assert _is_feasible(needs, packed.packing)
    assert packed.gap >= 0
    if best is not None:
        assert best.most >= len(best.drained)
        assert best.most >= len(found.drained)
        assert len(best.drained) <= most_by_memory(loads)
        assert _is_feasible(needs, Packing(best.drained, best.to, loads))


def _roomy(nodes: int, room: float = 3.0) -> list[Snapshot]:
    """Return a fleet in which every node has room for the tenants of several."""
    fleet = fleet_of(5, nodes, 1e12)
    return [
        replace(seen, node=replace(seen.node, budget_bytes=int(seen.node.budget_bytes * room)))
        for seen in fleet
    ]


def _drained(
    fleet: Sequence[Snapshot], asked: Objectives, options: Options | None = None
) -> dict[str, dict[str, str]]:
    return moves_of(consolidate(fleet, asked, Config(), options=options))


def test_a_tenant_that_is_not_movable_stays() -> None:
    fleet = _roomy(3)
    assert len(_drained(fleet, EVERYBODY)) == 2
    asked = Objectives((Objective("/n0/*", movable=False), Objective("*")))
    assert "n0" not in _drained(fleet, asked)


def test_an_affinity_names_nodes_or_labels() -> None:
    fleet = _roomy(3)
    options = Options(labels={"n[02]": ("ssd", "zone=a")})
    for wish in ("n[02]", "ssd", "zone=*"):
        asked = Objectives((Objective("/n1/*", affinity=(wish,)), Objective("*")))
        found = _drained(fleet, asked, options)
        for moves in found.values():
            for cgroup, to in moves.items():
                assert not cgroup.startswith("/n1/") or to in ("n0", "n2")
        assert len(found) == 2, "the others may go anywhere"
    nowhere = Objectives((Objective("/*", affinity=("ssd", "zone=b")),))
    assert _drained(fleet, nowhere, options) == {}


def test_anti_affinity_counts_in_both_directions() -> None:
    fleet = _roomy(3)
    asked = Objectives(
        (
            Objective("/n0/t00000", anti_affinity=("/n1/*",)),
            Objective("/n2/t00000", anti_affinity=("/n1/*",)),
            Objective("*"),
        )
    )
    found = _drained(fleet, asked)
    at = {cgroup: to for moves in found.values() for cgroup, to in moves.items()}
    home = {one.cgroup: at.get(one.cgroup, s.node.name) for s in fleet for one in s.tenants}
    ones = {node for cgroup, node in home.items() if cgroup.startswith("/n1/")}
    assert home["/n0/t00000"] not in ones
    assert home["/n2/t00000"] not in ones
    assert len(found) == 1


def test_a_node_has_one_tenant_of_a_path() -> None:
    fleet = _roomy(3)
    alike = [
        replace(seen, tenants=(replace(seen.tenants[0], cgroup="/db"), *seen.tenants[1:]))
        for seen in fleet
    ]
    assert _drained(alike, EVERYBODY) == {}


def test_cpus_bound_what_a_node_takes_in() -> None:
    fleet = _roomy(2)
    assert len(_drained(fleet, EVERYBODY)) == 1
    asked = Objectives((Objective("/*", cpus=0.5),))
    most = max(len(seen.tenants) for seen in fleet)
    everybody = sum(len(seen.tenants) for seen in fleet)
    for cpus, drained in ((0.5 * most, 0), (0.5 * everybody, 1)):
        found = _drained(fleet, asked, Options(cpus={"n0": cpus, "n*": cpus}))
        assert len(found) == drained


@pytest.mark.parametrize("nodes", [3, 5])
def test_with_a_spare_node_all_fits_on_the_others_whichever_fails(nodes: int) -> None:
    fleet = _roomy(nodes, room=1.6)
    plain = consolidate(fleet, EVERYBODY, Config())
    spare = consolidate(fleet, EVERYBODY, Config(), options=Options(spare_nodes=1))
    assert 0 <= len(spare.drains) < len(plain.drains)
    left = [seen for seen in fleet if seen.node.name not in moves_of(spare)]
    total = sum(row.least_bytes for row in spare.tenants)
    for failed in left:
        rest = sum(seen.node.budget_bytes for seen in left if seen is not failed)
        assert total <= rest


def test_a_node_whose_tenants_fit_nowhere_is_named_and_others_are_drained() -> None:
    fleet = _roomy(3)
    least = consolidate(fleet, EVERYBODY, Config()).tenants
    # One tenant of n0 must have more than the whole memory of any other node.
    most = max(seen.node.budget_bytes for seen in fleet)
    asked = Objectives((Objective(least[0].cgroup, memory_min=parse_size("50%")), Objective("*")))
    big = replace(fleet[0], node=replace(fleet[0].node, budget_bytes=4 * most))
    found = consolidate([big, *fleet[1:]], asked, Config(), options=Options(spare_nodes=1))
    assert any("its tenants fit on no others: n0" in note for note in found.notes)
    assert found.drains
    assert "n0" not in moves_of(found)


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="spare_nodes: 2 is out of range"):
        Options(spare_nodes=2)
    with pytest.raises(InputError, match="headroom_hours: -1 is out of range"):
        Options(headroom_hours=-1)


def test_many_nodes_are_packed_by_the_heuristic_and_the_gap_is_noted() -> None:
    fleet = [
        replace(
            seen,
            node=replace(seen.node, name=f"m{i:03}"),
            tenants=tuple(replace(one, cgroup=f"/m{i}{one.cgroup}") for one in seen.tenants),
        )
        for i in range(80)
        for seen in fleet_of(i % 7, 1, 1e12)
    ]
    found = consolidate(fleet, EVERYBODY, Config())
    packed = pack(places_of(fleet, EVERYBODY, Config()), Options())
    assert packed is not None
    assert not packed.is_exact
    assert len(packed.packing.drained) == len(found.drains)
    said = [note for note in found.notes if "packing" in note]
    if packed.gap:
        assert said[0].startswith(f"at most {packed.gap} more")
        assert said[0].endswith("too large for an exact one")
    else:
        assert said == ["no other packing drains more nodes"]
    needed = int(packed.needs.size_bytes.min(axis=0).sum())
    left = [seen.node.budget_bytes for seen in fleet if seen.node.name not in moves_of(found)]
    bound = np.cumsum(sorted((seen.node.budget_bytes for seen in fleet), reverse=True))
    fewest = int(np.searchsorted(bound, needed)) + 1
    assert sum(left) >= needed
    assert fewest <= len(left) <= 1.25 * fewest
    spare = consolidate(fleet, EVERYBODY, Config(), options=Options(spare_nodes=1))
    assert 0 < len(spare.drains) <= len(found.drains)


def test_closed_nodes_receive_no_tenants_and_only_named_nodes_are_drained() -> None:
    fleet = _roomy(4)
    first = _drained(fleet, EVERYBODY)
    closed = next(iter(next(iter(first.values())).values()))
    found = _drained(fleet, EVERYBODY, Options(closed=frozenset([closed])))
    assert found and closed not in {to for moves in found.values() for to in moves.values()}
    (node,) = {seen.node.name for seen in fleet[:1]}
    only = _drained(fleet, EVERYBODY, Options(drainable=frozenset([node])))
    assert set(only) == {node}
    assert not _drained(fleet, EVERYBODY, Options(drainable=frozenset()))


def test_tenants_with_an_slo_count_with_the_policies_that_they_have() -> None:
    slo = Objective("/n[01]/*", hit_ratio=0.05)
    places = places_of(fleet_of(3, 4, 1e12), Objectives((slo, Objective("*"))), Config())
    needs = FleetNeeds.of(places)
    targets = [place.targets for place in places]
    present = np.concatenate([one.present for one in targets])
    follows = np.concatenate([one.follows for one in targets])
    has_slo = np.concatenate([one.has_slo for one in targets])
    best = np.concatenate([place.table.least.policy for place in places])
    for some in (follows & has_slo, follows & ~has_slo):
        assert (best != present)[some].any()
    some = follows & has_slo
    assert (needs.policy[:, some] == present[some]).all()
    some = follows & ~has_slo
    assert (needs.policy[:, some] != present[some]).any()


def test_a_tenant_that_missed_its_slo_in_a_rehearsal_needs_more() -> None:
    fleet = fleet_of(3, 2, 1e12)
    rows = consolidate(fleet, EVERYBODY, Config()).tenants
    before = {row.cgroup: row.least_bytes for row in rows}
    row = min(rows, key=lambda one: one.least_bytes)
    cgroup, wanted = row.cgroup, row.least_bytes + (1 << 22)
    elsewhere = next(one.node.name for one in fleet if one.node.name != row.node)
    found = consolidate(fleet, EVERYBODY, Config(), refuted={(elsewhere, cgroup): wanted})
    assert {one.cgroup: one.least_bytes for one in found.tenants} == before
    found = consolidate(fleet, EVERYBODY, Config(), refuted={(row.node, cgroup): wanted})
    after = {row.cgroup: row.least_bytes for row in found.tenants}
    assert after[cgroup] >= wanted
    assert {c: b for c, b in after.items() if c != cgroup} == {
        c: b for c, b in before.items() if c != cgroup
    }
