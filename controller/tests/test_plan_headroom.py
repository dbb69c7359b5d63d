# SPDX-License-Identifier: Apache-2.0
"""A node is only filled as far as its tenants' needs of any past time still fit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from drained_fleets import (
    CAPACITIES,
    EVERYBODY,
    fleet_of,
    moves_of,
    needed_in,
    random_past,
)
from experiments.control_loop.instances import snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tenants import MIB, NOON, loop_of, node_of, past_of

from cachepilot.domain.consolidation import Consolidation, Rest
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.past.need import SLOT_S, PastNeeds
from cachepilot.domain.snapshot import Snapshot, Trust
from cachepilot.plan.consolidation.again import plan_again
from cachepilot.plan.consolidation.consolidate import consolidate, places_of
from cachepilot.plan.consolidation.least.past import Past, PastByTenant, needs_now
from cachepilot.plan.consolidation.packing import exact, pack
from cachepilot.plan.consolidation.packing.best_fit import BestFit
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds
from cachepilot.plan.consolidation.packing.options import Options
from cachepilot.plan.consolidation.packing.packing import Packing
from cachepilot.plan.consolidation.packing.rules import Rules
from cachepilot.plan.problem.config import Config

HOUR_AGO = -4
"""A slot, relative to noon."""
LEFT_FOR = "room is left for what tenants needed together at any time of the last "


def _found(fleet: Sequence[Snapshot], before: PastByTenant) -> Consolidation:
    return consolidate(fleet, EVERYBODY, Config(), before=before)


def _two(memory_mib: int) -> list[Snapshot]:
    """Return a node with `/web`, which is small now, and a larger one with `/db`, 188 MiB."""
    small = node_of("a", 256, loop_of("/web", 32, 64))
    return [small, node_of("b", memory_mib, loop_of("/db", 188, 200))]


def test_a_tenant_that_was_large_an_hour_ago_is_not_packed_onto_a_full_node() -> None:
    fleet = _two(256)
    assert moves_of(_found(fleet, {})) == {"a": {"/web": "b"}}
    large = {("a", "/web"): past_of({HOUR_AGO: 200, 0: 32})}
    found = _found(fleet, large)
    assert found.drains == []
    assert found.tenants[0].peak_bytes == 200 * MIB
    assert found.tenants[0].note.endswith("; 200 MiB at 11:00 UTC")
    assert moves_of(_found(_two(400), large)) == {"a": {"/web": "b"}}


@pytest.mark.parametrize(
    ("hours", "known", "told"),
    [
        (24, range(-96, 1), LEFT_FOR + "24 h"),
        (24, range(-3, 1), LEFT_FOR + "1 h"),
        (24, (), "only what tenants need now counts: what they needed before is not known"),
        (0, (), "only what tenants need now counts: headroom_hours is 0"),
    ],
)
def test_the_hours_of_headroom_are_noted(hours: float, known: Sequence[int], told: str) -> None:
    before = {("a", "/web"): past_of(dict.fromkeys(known, 32))} if known else {}
    options = Options(headroom_hours=hours)
    found = consolidate(_two(256), EVERYBODY, Config(), options=options, before=before)
    assert told in found.notes


def test_the_rest_of_a_rollout_leaves_as_much_room() -> None:
    fleet = _two(256)
    drains = _found(fleet, {}).drains
    rest = Rest(tuple(drains), frozenset({"a"}), frozenset(), {})
    large = {("a", "/web"): past_of({HOUR_AGO: 200, 0: 32})}
    for before, drained in (({}, 1), (large, 0)):
        plans = plan_again(rest, fleet, EVERYBODY, Config(), (), Options(), {}, before)
        assert len(plans.as_ordered) == len(plans.anew) == drained


def test_no_tenant_is_packed_onto_a_node_whose_tenant_was_large() -> None:
    fleet = _two(256)
    assert _found(fleet, {("b", "/db"): past_of({HOUR_AGO: 240})}).drains == []
    assert len(_found(fleet, {("b", "/db"): past_of({HOUR_AGO: 220})}).drains) == 1


@pytest.mark.parametrize("heuristic", [True, False])
def test_regimes_that_do_not_coincide_share_what_one_of_them_needs(
    monkeypatch: pytest.MonkeyPatch, heuristic: bool
) -> None:
    if heuristic:
        monkeypatch.setattr(pack, "_solved", lambda *_: None)
    else:
        monkeypatch.setattr(BestFit, "pack", lambda self: Packing((), {}, self._loads))
    fleet = [
        node_of("a", 256, loop_of("/day", 32, 64)),
        node_of("b", 300, loop_of("/night", 32, 64)),
    ]
    day, night = {-2: 200.0, -1: 40.0}, {-2: 40.0, -1: 200.0}
    apart = {("a", "/day"): past_of(day), ("b", "/night"): past_of(night)}
    assert len(_found(fleet, apart).drains) == 1
    together = {("a", "/day"): past_of(day), ("b", "/night"): past_of(day)}
    assert _found(fleet, together).drains == []


def test_reads_of_the_past_count_as_memory_does() -> None:
    fleet = [
        replace(one, device=replace(one.device, capacity_iops=4000.0))
        for one in (
            node_of("a", 256, loop_of("/web", 32, 64)),
            node_of("b", 300, loop_of("/db", 32, 64)),
        )
    ]
    assert len(_found(fleet, {}).drains) == 1
    for iops, drained in ((1500.0, 1), (2500.0, 0)):
        before = {
            ("a", "/web"): past_of({HOUR_AGO: 32}, iops),
            ("b", "/db"): past_of({HOUR_AGO: 32}, iops),
        }
        assert len(_found(fleet, before).drains) == drained


def test_the_greatest_need_and_its_time_are_shown() -> None:
    before = {("a", "/web"): past_of({-35: 100, HOUR_AGO: 40}), ("b", "/db"): past_of({-2: 190})}
    found = _found(_two(400), before)
    (move,) = found.drains[0].moves
    assert (move.limit_bytes, move.need_bytes) == (64 * MIB, 32 * MIB)
    assert (move.peak_bytes, move.peak_s) == (100 * MIB, (NOON - 35) * SLOT_S)
    assert "45% of its memory" in move.why
    assert move.why.endswith("28% and 100% with the needs of 03:15 UTC")
    assert any("at any time of the last 8.5 h" in note for note in found.notes)
    nothing = _found(_two(400), {})
    assert nothing.drains[0].moves[0].peak_s is None
    assert nothing.tenants[0].peak_bytes == nothing.tenants[0].least_bytes
    assert any("only what tenants need now counts" in note for note in nothing.notes)


def test_a_node_with_too_large_past_needs_is_named_and_receives_no_tenants() -> None:
    full = node_of("b", 300, loop_of("/db", 32, 64), loop_of("/web", 32, 64))
    fleet = [node_of("a", 256, loop_of("/cache", 32, 64)), full]
    both = {("b", name): past_of({HOUR_AGO: 200}) for name in ("/db", "/web")}
    found = _found(fleet, both)
    told = "b: at 11:00 UTC its tenants needed 100 MiB more than it has"
    assert told in found.notes
    assert found.drains == []


def test_peaks_bound_the_number_of_further_tenants() -> None:
    fleet = [node_of("a", 320, loop_of("/web", 32, 64))]
    assert _found(fleet, {}).tenants[0].more_of_this_kind == 9
    before = {("a", "/web"): past_of({HOUR_AGO: 100})}
    assert _found(fleet, before).tenants[0].more_of_this_kind == 2


def test_past_needs_are_cut_to_the_memory_of_the_node() -> None:
    fleet = [node_of("a", 256, loop_of("/web", 32, 64)), node_of("b", 300, loop_of("/db", 32, 64))]
    before = {("a", "/web"): past_of({HOUR_AGO: 4000})}
    assert _found(fleet, before).tenants[0].peak_bytes == 256 * MIB


@pytest.mark.parametrize(("was_mib", "drained"), [(150, 0), (20, 1), (0, 1)])
def test_past_needs_on_another_device_count_as_a_difference(was_mib: int, drained: int) -> None:
    """`/db` needs 188 MiB of the 256 of `b`; `/web`, which came to `a`, needs 32."""
    came = replace(past_of({HOUR_AGO: was_mib}, 0.0), moved=np.array([True]))
    found = _found(_two(256), {("a", "/web"): came})
    assert len(found.drains) == drained
    assert found.tenants[0].peak_bytes == (32 + was_mib) * MIB
    places = places_of(_two(256), EVERYBODY, Config(), before={("a", "/web"): came})
    assert places[0].past.more_iops.min() >= 0 and places[0].past.more_bytes.min() >= 0


@pytest.mark.parametrize(("last_mib", "peak_mib"), [(40, 182), (32, 182), (12, 162), (0, 150)])
def test_a_need_that_rose_on_the_new_node_does_not_count_twice(
    last_mib: int, peak_mib: int
) -> None:
    """It needed 150 MiB more than `last_mib`, its last need there, and needs 32 MiB now."""
    last = np.array([[last_mib * MIB, 4.0, 0.5]])
    came = replace(past_of({HOUR_AGO: 150}, 150.0, {HOUR_AGO: 2.0}), moved=np.array([True]))
    fleet = [node_of("a", 256, loop_of("/web", 32, 64, cpus=1.5))]
    before = {("a", "/web"): replace(came, last=last)}
    assert _found(fleet, before).tenants[0].peak_bytes == peak_mib * MIB
    (place,) = places_of(fleet, EVERYBODY, Config(), before=before)
    (reads,) = place.needs.in_force().at(place.needs.targets.wait_us).device_iops
    assert place.past.more_iops[0, 1] == pytest.approx(150.0 - (reads - 4.0))
    assert place.past.more_cpus[0, 1] == pytest.approx(1.0)


@pytest.mark.parametrize("followed", [0, 1])
def test_nothing_is_known_of_a_tenant_whose_curves_are_not_followed(followed: int) -> None:
    seen = snapshot(3, 2, 4)
    tenants = [
        replace(one, policy=one.curves.policies[-1], trust=Trust(i < followed, "lost events"))
        for i, one in enumerate(seen.tenants)
        if one.curves is not None
    ]
    asked = Objectives(tuple(Objective(one.cgroup, throughput_ops=1.0) for one in tenants))
    found = needs_now(replace(seen, tenants=tuple(tenants)), asked, Config())
    assert set(found) == {one.cgroup for one in tenants[:followed]}


def _fits(needs: FleetNeeds, packing: Packing, before: PastByTenant, slots: range) -> bool:
    """Whether each node that takes tenants in has what all its tenants needed in every slot."""
    come: dict[int, list[int]] = {}
    for tenant, node in packing.to.items():
        come.setdefault(node, []).append(tenant)
    for node, guests in come.items():
        there, budget = [*needs.rows(node), *guests], needs.places[node].table.budget_bytes
        if not any(
            all(sum(needed_in(needs, one, before, at, slot) for one in there) <= budget
                for slot in slots)
            for at in range(needs.read_us.size)
        ):  # fmt: skip
            return False
    return True


@settings(max_examples=12)
@given(
    st.integers(0, 10_000),
    st.integers(2, 5),
    st.sampled_from(CAPACITIES),
    st.integers(1, 5),
    st.floats(0.3, 2.0),
)
def test_no_planned_node_ever_needed_more_than_it_has(
    seed: int, nodes: int, capacity: float, times: int, most: float
) -> None:
    fleet = fleet_of(seed, nodes, capacity)
    before, slots = random_past(fleet, seed, times, most), range(NOON - 1, NOON + times)
    places = places_of(fleet, EVERYBODY, Config(), before=before)
    needs = FleetNeeds.of(places)
    own = [needs.rows(node) for node in range(len(places))]
    rules = Rules.of(places, own, [()] * len(places))
    loads = pack.loads_of(needs, Options())
    found = BestFit(needs, loads, rules, 0).pack()
    assert _fits(needs, found, before, slots)
    best = exact.solve(needs, loads, rules, len(found.drained))
    packed = pack.pack(places, Options())
    assert packed is not None
    assert _fits(needs, packed.packing, before, slots)
    if best is not None:
        assert best.most >= len(found.drained)
        assert len(best.drained) <= pack.most_by_memory(loads)
        # The tolerance of the exact program is a millionth of a node.
        roomy = replace(loads, budget_bytes=loads.budget_bytes + (1 << 12))
        packing = BestFit(needs, roomy, rules, 0).packing(best.drained, best.to)
        targets = np.array(sorted(set(best.to.values())), dtype=np.int64)
        assert (packing.loads.spare_now(targets)[0] >= -1e-6).all()


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(0, 8))
def test_times_that_others_cover_decide_nothing(seed: int, tenants: int, times: int) -> None:
    random = np.random.default_rng(seed)
    more = random.integers(-2, 3, (tenants, times + 1))
    more[:, 0] = 0
    past = Past(np.arange(times), more, more.astype(np.float64), np.zeros(more.shape))
    kept = past.worst()
    assert set(kept.tolist()) <= set(range(1, times + 1))
    for group in range(1, 1 << tenants):
        rows = [row for row in range(tenants) if group >> row & 1]
        at_once = more[rows].sum(axis=0)
        assert at_once[1:].max(initial=-99) == at_once[kept].max(initial=-99)


def test_a_fleet_that_is_too_large_for_the_program_leaves_the_same_room() -> None:
    """Eighty nodes; the tenants of each pair are large at the same time."""
    fleet = [node_of(f"n{i:02}", 300, loop_of(f"/t{i}", 32, 64)) for i in range(80)]
    before: Mapping[tuple[str, str], PastNeeds] = {
        (f"n{i:02}", f"/t{i}"): past_of({-1 - i // 2: 200}) for i in range(80)
    }
    plain, found = _found(fleet, {}), _found(fleet, before)
    at = {one.node.name: [f"/t{i}"] for i, one in enumerate(fleet)}
    for drain in found.drains:
        del at[drain.node]
    for move in (move for drain in found.drains for move in drain.moves):
        at[move.to_node].append(move.cgroup)
    assert 0 < len(found.drains) < len(plain.drains)
    for there in at.values():
        of_pair = [int(cgroup[2:]) // 2 for cgroup in there]
        assert len(set(of_pair)) == len(of_pair), "both of a pair are large at once"
        assert 200 + 32 * (len(there) - 1) <= 300
