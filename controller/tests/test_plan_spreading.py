# SPDX-License-Identifier: Apache-2.0
"""Tenants leave nodes that have no room for what comes next, so that all nodes have room."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from drained_fleets import CAPACITIES, EVERYBODY, fleet_of, random_past
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tenants import MIB, NOON, loop_of, node_of, past_of

from cachepilot.domain.consolidation import Drain, Rest, Spread
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.past.need import PastNeeds
from cachepilot.domain.snapshot import Snapshot
from cachepilot.errors import InputError
from cachepilot.plan.consolidation.again import plan_again
from cachepilot.plan.consolidation.consolidate import consolidate, places_of
from cachepilot.plan.consolidation.least.past import PastByTenant
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds
from cachepilot.plan.consolidation.packing.options import Options
from cachepilot.plan.consolidation.packing.spread import spread
from cachepilot.plan.consolidation.spreading import plan_spread
from cachepilot.plan.problem.config import Config
from cachepilot.sizes import PAGE_BYTES

SOON = -92
"""A slot relative to noon: an hour after noon, a day ago."""
FITS = "all nodes have room for their tenants"


def _found(
    fleet: Sequence[Snapshot],
    ahead: PastByTenant,
    homes: Mapping[str, str] | None = None,
    objectives: Objectives = EVERYBODY,
    options: Options | None = None,
) -> Spread:
    return plan_spread(fleet, objectives, Config(), options=options, ahead=ahead, homes=homes or {})


def _moves(found: Spread) -> dict[str, str]:
    return {move.cgroup: move.to_node for one in found.drains for move in one.moves}


def _packed(*others: Snapshot) -> list[Snapshot]:
    """Return three small tenants on a node of 256 MiB, and the other nodes."""
    small = [loop_of(name, 32, 80) for name in ("/db", "/mail", "/web")]
    return [node_of("a", 256, *small), *others]


def _elsewhere(more_mib: int) -> PastNeeds:
    """Return what a tenant needed elsewhere beyond its last need there."""
    return replace(past_of({SOON: more_mib}, 0.0), moved=np.array([True]))


def _ahead(**mib: int) -> PastByTenant:
    """Return what tenants that are on `a` now needed elsewhere."""
    return {("a", f"/{name}"): _elsewhere(size - 32) for name, size in mib.items()}


def test_no_tenant_moves_while_all_fit() -> None:
    fleet = _packed(node_of("b", 256))
    for ahead in ({}, _ahead(web=150, db=70)):
        found = _found(fleet, ahead, {"/web": "b"})
        assert found.drains == [] and FITS in found.notes


def test_one_tenant_leaves_before_its_node_is_short() -> None:
    found = _found(_packed(node_of("b", 256)), _ahead(web=200, db=70, mail=60))
    (drain,) = found.drains
    assert _moves(found) == {"/web": "b"}
    (move,) = drain.moves
    assert (drain.node, drain.freed_bytes) == ("a", 0)
    assert drain.why == "the tenants of a needed 74 MiB more than it has at 13:00 UTC a day ago"
    # The tenant gets no less than it has.
    assert (move.limit_bytes, move.need_bytes) == (80 * MIB, 32 * MIB)
    assert (move.peak_bytes, move.peak_s) == (200 * MIB, (NOON + SOON) * 900.0)
    assert FITS not in found.notes


def test_a_move_shows_the_need_beside_the_limit() -> None:
    fleet = _packed(node_of("b", 256))
    large = loop_of("/web", 32, 220)
    fleet[0] = replace(fleet[0], tenants=(*fleet[0].tenants[:2], large))
    (drain,) = _found(fleet, _ahead(web=200, db=70, mail=60)).drains
    (move,) = drain.moves
    assert (move.limit_bytes, move.need_bytes, move.peak_bytes) == (220 * MIB, 32 * MIB, 200 * MIB)
    assert move.peak_s == (NOON + SOON) * 900.0


def test_present_needs_count_without_a_past() -> None:
    large = [loop_of(name, size, 80) for name, size in (("/db", 90), ("/mail", 30), ("/web", 160))]
    stated = Objectives((Objective("/*", throughput_ops=8000.0), Objective("*")))
    fleet = [node_of("a", 256, *large), node_of("b", 256), node_of("c", 256, loop_of("/x", 32, 64))]
    found = _found(fleet, {}, objectives=stated)
    # It is the smallest tenant without which the others fit.
    assert _moves(found) == {"/mail": "c"}
    assert found.drains[0].why == "the tenants of a need 24 MiB more than it has"
    assert any("what they needed a day ago is not known" in note for note in found.notes)


def test_a_tenant_goes_to_its_former_node_if_that_has_room() -> None:
    others = [node_of("b", 256), node_of("c", 256, loop_of("/x", 32, 64)), node_of("d", 64)]
    ahead = _ahead(web=200, db=70, mail=60)
    fleet = _packed(*others)
    assert _moves(_found(fleet, ahead)) == {"/web": "c"}
    assert _moves(_found(fleet, ahead, {"/web": "b"})) == {"/web": "b"}
    assert _moves(_found(fleet, ahead, {"/web": "d"})) == {"/web": "c"}
    assert _moves(_found(fleet, ahead, {"/web": "unknown"})) == {"/web": "c"}


def test_immovable_tenants_stay_and_a_node_that_stays_short_is_named() -> None:
    ahead, fleet = _ahead(web=200, db=70, mail=60), _packed(node_of("b", 256))
    stays = Objectives((Objective("/web", movable=False), Objective("*")))
    assert set(_moves(_found(fleet, ahead, objectives=stays))) == {"/db", "/mail"}
    nobody = Objectives((Objective("*", movable=False),))
    found = _found(fleet, ahead, objectives=nobody)
    assert found.drains == []
    told = "the tenants of a needed 74 MiB more than it has at 13:00 UTC a day ago"
    assert found.left == {"a": told} and FITS not in found.notes
    apart = Objectives((Objective("/web", affinity=("c",)), Objective("*")))
    assert set(_moves(_found(fleet, ahead, objectives=apart))) == {"/db", "/mail"}


def test_no_tenant_leaves_if_the_shortage_stays_the_same() -> None:
    """No other tenant can make room for the CPUs that `/db` states."""
    small = [loop_of(name, 32, 80) for name in ("/db", "/mail", "/web")]
    fleet = [node_of("a", 256, *small, cpus=2), node_of("b", 256)]
    stated = Objectives((Objective("/db", movable=False, cpus=4), Objective("*")))
    found = _found(fleet, {}, objectives=stated)
    assert found.drains == []
    assert found.left == {"a": "the tenants of a need more CPUs than it has"}
    # The node is relieved of what it lacks besides that.
    assert _moves(_found(fleet, _ahead(web=250, mail=60), objectives=stated)) == {"/web": "b"}


def test_the_first_leaver_stays_if_the_later_ones_suffice() -> None:
    """Each later leaver relieves one of two slots, the first one both, but of less."""
    tenants = [loop_of(name, 1, 80) for name in ("/both", "/first", "/second", "/stays")]
    fleet = [node_of("a", 256, *tenants), node_of("b", 256)]
    at_two = {"both": (30, 30), "first": (50, 0), "second": (0, 50), "stays": (222, 222)}
    ahead = {
        ("a", f"/{name}"): replace(
            past_of({SOON: mib[0], SOON + 1: mib[1]}, 0.0), moved=np.array([True, True])
        )
        for name, mib in at_two.items()
    }
    stays = Objectives((Objective("/stays", movable=False), Objective("*")))
    assert set(_moves(_found(fleet, ahead, objectives=stays))) == {"/first", "/second"}


def test_the_loss_of_a_node_counts_where_that_is_asked() -> None:
    """If `/web` is on `b` with `/own`, no node has room for both if `b` fails."""
    ahead = _ahead(web=200, db=70, mail=60)
    own = node_of("b", 256, loop_of("/own", 32, 64))
    fleet = _packed(own, node_of("c", 256, loop_of("/x", 60, 64)))
    assert _moves(_found(fleet, ahead)) == {"/web": "b"}
    loss = Options(spare_nodes=1)
    assert "/web" not in _moves(_found(fleet, ahead, options=loss))
    roomy = [*fleet, node_of("d", 512)]
    assert _moves(_found(roomy, ahead, options=loss)) == {"/web": "b"}


def test_the_rest_is_planned_again_for_the_ordered_nodes() -> None:
    fleet = _packed(node_of("b", 256), node_of("c", 256, loop_of("/x", 32, 64)))
    ahead = _ahead(web=200, db=70, mail=60)
    ordered = _found(fleet, ahead, {"/web": "b"}).drains
    rest = Rest(tuple(ordered), frozenset("a"), frozenset("a"), {}, spreads=True)

    def again(rest: Rest, ahead: PastByTenant, is_left: bool = False) -> list[Drain]:
        homes = {"/web": "d", "/mail": "b", "/db": "c"}
        plans = plan_again(rest, fleet, EVERYBODY, Config(), (), Options(), {}, ahead, homes)
        assert plans.as_ordered == plans.anew
        assert plans.left == (frozenset("a") if is_left else frozenset())
        return list(plans.anew)

    assert again(rest, ahead) == ordered
    assert again(rest, {}) == []
    closed = replace(rest, closed=frozenset("ab"))
    assert [move.to_node for one in again(closed, ahead) for move in one.moves] == ["c"]
    assert again(replace(rest, drainable=frozenset()), ahead) == []
    assert again(replace(rest, closed=frozenset("abc")), ahead, is_left=True) == []
    # A tenant that was not ordered to go returns home.
    more = {**ahead, **_ahead(web=250, db=140, mail=130)}
    (anew,) = again(rest, more)
    assert {move.cgroup: move.to_node for move in anew.moves} == {"/web": "b", "/db": "c"}


def test_tenants_packed_at_night_are_spread_back_in_the_morning() -> None:
    fleet = [node_of(name, 256, loop_of(f"/{name}", 32, 200)) for name in "abc"]
    night = consolidate(fleet, EVERYBODY, Config())
    assert len(night.drains) == 2
    homes = {move.cgroup: move.from_node for one in night.drains for move in one.moves}
    (stays,) = {move.to_node for one in night.drains for move in one.moves}
    packed = [
        replace(one, tenants=tuple(t for of in fleet for t in of.tenants) if one.node.name == stays
                else ())
        for one in fleet
    ]  # fmt: skip
    ahead = {(stays, f"/{name}"): _elsewhere(168) for name in "abc" if name != stays}
    ahead[stays, f"/{stays}"] = past_of({SOON: 200})
    assert _moves(_found(packed, ahead, homes)) == homes


def test_lookahead_hours_are_at_most_a_day() -> None:
    with pytest.raises(InputError, match="lookahead_hours: 25 is out of range"):
        Options(lookahead_hours=25)
    found = _found(_packed(), {}, options=Options(lookahead_hours=0))
    assert "only what tenants need now counts: lookahead_hours is 0" in found.notes


def test_needs_that_were_met_on_the_same_node_move_no_tenant() -> None:
    """They were there together with the node's present memory, so it was enough.

    If it was not, it is no less enough today.
    """
    fleet = _packed(node_of("b", 256))
    together = {("a", name): past_of({SOON: 200}) for name in ("/db", "/mail", "/web")}
    assert _found(fleet, together).drains == []
    # A tenant without a known past was on no other node, as far as is known.
    unknown = {name: one for name, one in together.items() if name != ("a", "/db")}
    assert _found(fleet, unknown).drains == []
    # Nor is it known then that the node had room for it beside the others.
    later = {("a", name): past_of({SOON: 120, SOON + 1: 120}) for name in ("/mail", "/web")}
    came_later = replace(past_of({SOON + 1: 0}, 0.0), moved=np.array([True]))
    assert len(_moves(_found(fleet, {**later, ("a", "/db"): came_later}))) == 1
    # With one more tenant than then, it counts beyond what the others needed.
    came = {**together, ("a", "/web"): _elsewhere(168)}
    assert len(_moves(_found(fleet, came))) == 1


def test_the_present_counts_where_an_slo_is_measured_as_missed() -> None:
    large = [loop_of(name, 160, 120) for name in ("/db", "/web")]
    fleet = [node_of("a", 256, *large), node_of("b", 256)]
    for ops, moved in ((8000.0, 1), (900.0, 0)):
        stated = Objectives((Objective("/*", hit_ratio=0.99, throughput_ops=ops), Objective("*")))
        assert len(_moves(_found(fleet, {}, objectives=stated))) == moved


def test_an_slo_is_not_missed_where_nothing_was_done() -> None:
    large = [loop_of(name, 160, 120) for name in ("/db", "/web")]
    idle = [
        replace(one, indicators=replace(one.indicators, throughput_ops=0.0, miss_ratio=1.0))
        for one in large
    ]
    stated = Objectives((Objective("/*", hit_ratio=0.9, throughput_ops=8000.0), Objective("*")))
    for tenants, moved in ((large, 1), (idle, 0)):
        fleet = [node_of("a", 256, *tenants), node_of("b", 256)]
        assert len(_moves(_found(fleet, {}, objectives=stated))) == moved


def _needed(needs: FleetNeeds, row: int, ahead: PastByTenant, at: int, slot: int) -> int:
    """Return a tenant's need at a read time, plus what it needed more elsewhere in a slot."""
    home = needs.places[int(needs.homes[row])]
    own = row - int(needs.start[int(needs.homes[row])])
    past = ahead.get((home.name, home.targets.asked.tenants[own].cgroup))
    now = int(needs.size_bytes[at, row])
    if past is None or slot not in past.slots.tolist():
        return now
    here = int(home.needs.in_force().at(home.targets.wait_us).size_bytes[own])
    more = int(np.ceil(past.size_bytes[past.slots.tolist().index(slot)]))
    return now + max(min(here + more, int(home.needs.most_bytes[own])) - here, 0)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 4),
    st.sampled_from(CAPACITIES),
    st.integers(1, 5),
    st.floats(0.5, 3.0),
)
def test_after_a_spread_every_node_fits_at_each_quarter_of_an_hour(
    seed: int, nodes: int, capacity: float, times: int, most: float
) -> None:
    fleet = fleet_of(seed, nodes, capacity)
    past = random_past(fleet, seed, times, most)
    ahead = {name: replace(one, moved=one.slots >= 0) for name, one in past.items()}
    largest = max(one.node.budget_bytes for one in fleet)
    for i in range(3 * nodes):
        empty = replace(fleet[0], node=replace(fleet[0].node, name=f"e{i}", budget_bytes=largest))
        fleet.append(replace(empty, tenants=()))
    places = places_of(fleet, EVERYBODY, Config(), before=ahead)
    found = spread(places, Options(), {}, ahead)
    assert found is not None
    needs, to = found.packed.needs, found.packed.packing.to
    short = set(found.short)
    assert {int(needs.homes[one]) for one in to} <= short
    assert short.isdisjoint(to.values())
    there: dict[int, list[int]] = {
        node: [one for one in needs.rows(node) if one not in to] for node in range(len(places))
    }
    for tenant, node in to.items():
        there[node].append(tenant)
    for node in {*to.values(), *short} - found.left:
        budget = places[node].table.budget_bytes
        assert any(
            all(
                sum(_needed(needs, one, ahead, at, slot) for one in there[node]) <= budget
                for slot in range(NOON - 1, NOON + times)
            )
            for at in range(needs.read_us.size)
        )
    # A tenant that is alone on a node has all memory that it may have.
    assert capacity < 1e12 or not found.left


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(8, 120), min_size=1, max_size=7))
def test_no_fewer_moves_would_do(sizes: list[int]) -> None:
    tenants = [loop_of(f"/{i}", 8, 16) for i in range(len(sizes))]
    fleet = [node_of("a", 128, *tenants), *(node_of(f"e{i}", 128) for i in range(7))]
    ahead = {("a", f"/{i}"): _elsewhere(size - 8) for i, size in enumerate(sizes)}
    moved = len(_moves(_found(fleet, ahead)))

    def fits_without(gone: Sequence[int]) -> bool:
        left = [size for i, size in enumerate(sizes) if i not in gone]
        return sum(left) * MIB <= 128 * MIB + PAGE_BYTES and 8 * len(left) <= 128

    least = next(
        count
        for count in range(len(sizes) + 1)
        if any(map(fits_without, combinations(range(len(sizes)), count)))
    )
    assert moved == least


def test_a_large_fleet_is_planned_in_time() -> None:
    """In a fleet of 200 nodes every second one is short, and its neighbour is empty."""
    fleet = [
        node_of(f"n{i:03}", 256, *(loop_of(f"/{i}-{j}", 32, 64) for j in range(5 * (i % 2 == 0))))
        for i in range(200)
    ]
    ahead = {(f"n{i:03}", f"/{i}-0"): _elsewhere(168) for i in range(0, 200, 2)}
    found = _found(fleet, ahead)
    assert len(_moves(found)) == 100
    assert {np.unique([move.cgroup for move in one.moves]).size for one in found.drains} == {1}
