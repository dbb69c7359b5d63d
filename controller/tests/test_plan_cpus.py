# SPDX-License-Identifier: Apache-2.0
"""Measured CPUs bound what a node takes in, by present and past needs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from drained_fleets import EVERYBODY, fleet_of, moves_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_tenants import NOON, loop_of, node_of, past_of

from cachepilot.domain.consolidation import Consolidation, Rest
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.past.need import PastNeeds
from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.consolidation.again import plan_again
from cachepilot.plan.consolidation.consolidate import consolidate, places_of
from cachepilot.plan.consolidation.least.cpus import CpuNeeds, with_margin, without_margin
from cachepilot.plan.consolidation.least.past import PastByTenant
from cachepilot.plan.consolidation.packing import exact, pack
from cachepilot.plan.consolidation.packing.best_fit import BestFit
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds
from cachepilot.plan.consolidation.packing.options import Options
from cachepilot.plan.consolidation.packing.packing import Packing
from cachepilot.plan.problem.config import Config

ONLY_NOW: PastByTenant = {}


def _two(web: float | None, db: float | None, cpus: float | None = 8.0) -> list[Snapshot]:
    """Return two nodes with memory for both tenants; the first node is the smaller."""
    return [
        node_of("a", 256, loop_of("/web", 32, 64, web), cpus=cpus),
        node_of("b", 300, loop_of("/db", 32, 64, db), cpus=cpus),
    ]


def _found(
    fleet: Sequence[Snapshot],
    before: PastByTenant = ONLY_NOW,
    asked: Objectives = EVERYBODY,
    options: Options | None = None,
) -> Consolidation:
    return consolidate(fleet, asked, Config(), options=options, before=before)


@given(st.floats(0, 1e4))
def test_the_margin_is_the_square_root_and_has_an_inverse(mean: float) -> None:
    needed = with_margin(np.array(mean))
    assert needed == pytest.approx(mean + mean**0.5)
    assert without_margin(needed) == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize("heuristic", [True, False])
@pytest.mark.parametrize(("web", "db", "drained"), [(2.0, 3.6, 1), (2.0, 3.7, 0), (7.0, 0.0, 0)])
def test_measured_cpus_leave_a_margin_free(
    monkeypatch: pytest.MonkeyPatch, heuristic: bool, web: float, db: float, drained: int
) -> None:
    """5.63 of eight CPUs may be needed."""
    _only(monkeypatch, heuristic)
    assert len(_found(_two(web, db)).drains) == drained


def _only(monkeypatch: pytest.MonkeyPatch, heuristic: bool) -> None:
    if heuristic:
        monkeypatch.setattr(pack, "_solved", lambda *_: None)
    else:
        monkeypatch.setattr(BestFit, "pack", lambda self: Packing((), {}, self._loads))


def test_without_cpus_of_a_node_nothing_is_bound() -> None:
    assert len(_found(_two(70.0, 70.0, None)).drains) == 1
    found = _found(_two(None, None))
    assert len(found.drains) == 1
    told = "CPUs that some tenants need are not known and count as 0, on a, b"
    assert told in found.notes
    assert [row.cpus for row in found.tenants] == [None, None]
    assert not any("CPUs" in note for note in _found(_two(None, None, None)).notes)


def test_stated_cpus_override_measured_ones() -> None:
    fleet = _two(5.0, 5.0)
    assert not _found(fleet).drains
    asked = Objectives((Objective("/web", cpus=0.5), Objective("*")))
    found = _found(fleet, asked=asked)
    assert moves_of(found) == {"a": {"/web": "b"}}
    assert found.drains[0].moves[0].cpus == 0.5
    whole = Objectives((Objective("*", cpus=4.0),))
    assert len(_found(fleet, asked=whole).drains) == 1, "no margin beside what is stated"
    before = {("a", "/web"): past_of({-4: 32}, cpus={-4: 8.0})}
    assert len(_found(fleet, before, asked).drains) == 1, "it states what it ever needs"
    assert len(_found(fleet, options=Options(cpus={"*": 16})).drains) == 1
    assert not _found(_two(2.0, 2.0), options=Options(cpus={"*": 2})).drains


@pytest.mark.parametrize("heuristic", [True, False])
def test_tenants_share_cpus_that_they_need_at_different_times(
    monkeypatch: pytest.MonkeyPatch, heuristic: bool
) -> None:
    _only(monkeypatch, heuristic)
    fleet = _two(0.5, 0.5)

    def found(web: Mapping[int, float], db: Mapping[int, float]) -> Consolidation:
        slots = {-3: 32.0, -2: 32.0}
        of_web, of_db = past_of(slots, cpus=web), past_of(slots, cpus=db)
        return _found(fleet, {("a", "/web"): of_web, ("b", "/db"): of_db})

    day, night = {-3: 4.0, -2: 0.5}, {-3: 0.5, -2: 4.0}
    apart = found(day, night)
    assert len(apart.drains) == 1
    assert not found(day, day).drains
    why = apart.drains[0].moves[0].why
    assert (
        "% of its memory, 100% of its reads/s and 88% of its CPUs stay free after all moves" in why
    )
    assert why.endswith("%, 100% and 44% with the needs of 11:15 UTC")


def test_past_cpus_of_an_unmeasured_tenant_count_unchanged() -> None:
    before = {("a", "/web"): past_of({-4: 32}, cpus={-4: 5.0})}
    assert not _found(_two(None, 1.0), before).drains
    assert len(_found(_two(None, 0.5), before).drains) == 1
    unknown = {("a", "/web"): past_of({-4: 32})}
    assert not _found(_two(5.0, 1.0), unknown).drains


def test_past_cpus_on_another_node_count_as_a_difference() -> None:
    for more, drained in ((3.0, 0), (1.0, 1), (-5.0, 1)):
        came = replace(past_of({-4: 0}, 0.0, {-4: more}), moved=np.array([True]))
        assert len(_found(_two(2.0, 2.0), {("a", "/web"): came}).drains) == drained


def test_the_rest_of_a_rollout_needs_as_many_cpus() -> None:
    drains = _found(_two(1.0, 1.0)).drains
    rest = Rest(tuple(drains), frozenset({"a"}), frozenset(), {})
    for db, left in ((1.0, 1), (7.0, 0)):
        plans = plan_again(rest, _two(1.0, db), EVERYBODY, Config(), (), Options(), {})
        assert len(plans.as_ordered) == len(plans.anew) == left


def test_a_shortage_of_cpus_is_noted() -> None:
    notes = _found(_two(7.0, 0.5)).notes
    assert "a: its tenants need 1.65 CPUs more than it has, with a margin" in notes
    before = {("a", "/web"): past_of({-4: 32}, cpus={-4: 9.0})}
    found = _found(_two(1.0, 0.5), before)
    assert (
        "a: at 11:00 UTC its tenants needed 4 CPUs more than it has, with a margin" in found.notes
    )
    assert found.tenants[0].more_of_this_kind == 0


def test_cpus_bound_the_number_of_further_tenants() -> None:
    fleet = [node_of("a", 3200, loop_of("/web", 32, 64, 1.0), cpus=8.0)]
    assert _found(fleet).tenants[0].more_of_this_kind == 4
    before = {("a", "/web"): past_of({-4: 32}, cpus={-4: 2.0})}
    assert _found(fleet, before).tenants[0].more_of_this_kind == 1
    asked = Objectives((Objective("*", cpus=1.0),))
    assert _found(fleet, before, asked).tenants[0].more_of_this_kind == 7


def _measured(seed: int, nodes: int, cpus: float) -> tuple[list[Snapshot], PastByTenant]:
    """Return a fleet with CPUs and random needs of every tenant, now and at some of three slots."""
    random = np.random.default_rng(seed)
    fleet, before = [], {}
    for seen in fleet_of(seed, nodes, 1e12):
        mean = cpus / (len(seen.tenants) + 1)
        tenants = []
        for one in seen.tenants:
            uses = None if random.random() < 0.1 else float(random.exponential(mean))
            tenants.append(replace(one, indicators=replace(one.indicators, cpus=uses)))
            slots = np.flatnonzero(random.random(3) < 0.7) + NOON
            then = random.exponential(mean, slots.size)
            then[random.random(slots.size) < 0.2] = np.nan
            if slots.size:
                size = np.full(slots.size, float(one.limit_bytes))
                past = PastNeeds.of_node(slots, size, np.zeros(slots.size), then)
                before[seen.node.name, one.cgroup] = past
        node = replace(seen.node, budget_bytes=8 * seen.node.budget_bytes, cpus=cpus)
        fleet.append(replace(seen, node=node, tenants=tuple(tenants)))
    return fleet, before


def _fits(
    fleet: Sequence[Snapshot], asked: Objectives, before: PastByTenant, packing: Packing
) -> bool:
    """Whether nodes that take tenants in have the CPUs that all their tenants need."""
    tenants = [(seen.node.name, one) for seen in fleet for one in seen.tenants]
    home = {row: node for row, (node, _) in enumerate(tenants)}
    at = home | {row: fleet[node].node.name for row, node in packing.to.items()}
    for seen in (fleet[node] for node in set(packing.to.values())):
        for slot in (None, *range(NOON, NOON + 3)):
            stated = measured = 0.0
            for row in (row for row, node in at.items() if node == seen.node.name):
                name, one = tenants[row]
                cpus = asked.of(one.cgroup).cpus
                past = before.get((name, one.cgroup))
                needed = one.indicators.cpus or 0.0
                if past is not None and slot in past.slots.tolist():
                    then = float(past.cpus[past.slots.tolist().index(slot)])
                    needed = needed if np.isnan(then) else then
                stated += cpus or 0.0
                measured += needed if cpus is None else 0.0
            if stated + measured + measured**0.5 > (seen.node.cpus or np.inf) * (1 + 1e-9):
                return False
    return True


@example(943, 5, 2.0, 0)
@settings(max_examples=15)
@given(
    st.integers(0, 10_000),
    st.integers(2, 5),
    st.sampled_from([0.5, 2.0, 8.0, 64.0]),
    st.integers(0, 1),
)
def test_no_planned_node_ever_needed_more_cpus_than_it_has(
    seed: int, nodes: int, cpus: float, spare: int
) -> None:
    fleet, before = _measured(seed, nodes, cpus)
    asked = Objectives((Objective("/n0/*", cpus=cpus / 20), Objective("*")))
    places = places_of(fleet, asked, Config(), before=before)
    needs, options = FleetNeeds.of(places), Options(spare_nodes=spare)
    rules, loads = pack.rules_of(needs, options), pack.loads_of(needs, options)
    found = BestFit(needs, loads, rules, spare).pack()
    assert _fits(fleet, asked, before, found)
    packed = pack.pack(places, options)
    assert packed is not None
    assert _fits(fleet, asked, before, packed.packing)
    assert len(packed.packing.drained) >= len(found.drained)
    best = exact.solve(needs, loads, rules, len(found.drained))
    if best is not None:
        assert best.most >= len(found.drained), "no packing that fits is beyond the program"


@given(st.integers(0, 10_000), st.floats(0.5, 64))
def test_one_more_than_fit_does_not_fit(seed: int, cpus: float) -> None:
    random = np.random.default_rng(seed)
    stated = np.where(random.random(4) < 0.5, random.exponential(1.0, 4), 0.0)
    measured = np.where(stated > 0, 0.0, random.exponential(1.0, 4))
    more = np.where(stated[:, None] > 0, 0.0, random.exponential(1.0, (4, 3)) - measured[:, None])
    more[:, 0] = 0.0
    needs = CpuNeeds(stated, measured, [True] * 4)
    has_room = (needs.short(more, cpus) <= 0).all()
    for row, count in enumerate(needs.more_like(more, cpus).tolist()):
        rows = np.concatenate((np.arange(4), np.repeat(row, count)))
        grown = CpuNeeds(stated[rows], measured[rows], [True] * rows.size)
        assert not has_room or (grown.short(more[rows], cpus) <= 1e-9).all()
        rows = np.append(rows, row)
        grown = CpuNeeds(stated[rows], measured[rows], [True] * rows.size)
        assert (grown.short(more[rows], cpus) > -1e-9).any()
