# SPDX-License-Identifier: Apache-2.0
"""Consolidation: the least memory suffices at the fixed point, and packings are feasible."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from drained_fleets import CAPACITIES, EVERYBODY, STATIC, fits, moves_of, present_ops
from experiments.control_loop.instances import MIB, snapshot
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cachepilot.domain.consolidation import LeastMemory
from cachepilot.domain.objectives.objective import Mode, Objective, Objectives
from cachepilot.domain.objectives.pins import Pin, with_pins
from cachepilot.domain.slos import GOAL
from cachepilot.domain.snapshot import Curves, Snapshot, SnapshotError, Tenant, Trust
from cachepilot.errors import InputError
from cachepilot.plan.consolidation.consolidate import consolidate
from cachepilot.plan.consolidation.least.needs import (
    MARGIN_MAX,
    TOLERANCE,
    WINDOW_ERRORS,
    Needs,
    Targets,
)
from cachepilot.plan.consolidation.least.wait_table import WaitTable
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.asked import Asked
from cachepilot.plan.problem.config import Config
from cachepilot.sizes import PAGE_BYTES, parse_size


def _at(tenant: Tenant, row: LeastMemory) -> Tenant:
    return replace(tenant, policy=row.least_policy, limit_bytes=row.least_bytes)


def _shrunk(seen: Snapshot, rows: Sequence[LeastMemory]) -> Snapshot:
    pairs = zip(seen.tenants, rows, strict=True)
    budget = max(seen.node.budget_bytes, sum(row.least_bytes for row in rows))
    node = replace(seen.node, budget_bytes=budget)
    return replace(seen, node=node, tenants=tuple(_at(*pair) for pair in pairs))


@settings(max_examples=15)
@given(
    st.integers(0, 10_000),
    st.integers(1, 6),
    st.sampled_from(CAPACITIES),
    st.floats(10, 3000),
    st.floats(0.05, 0.9),
    st.sampled_from(sorted(Mode)),
)
@example(814, 3, 3000.0, 10.0, 0.5, Mode.AUTO)
def test_the_least_memory_of_all_at_once_keeps_what_each_must(
    seed: int, tenants: int, capacity: float, ops: float, hits: float, mode: Mode
) -> None:
    seen = snapshot(seed, tenants, policies=3, capacity_iops=capacity)
    asked = Objectives(
        (
            Objective("/t00000", throughput_ops=ops),
            Objective("/t00001", hit_ratio=hits, memory_min=parse_size("0.1")),
            Objective("*", mode=mode),
        )
    )
    rows = consolidate([seen], asked, Config()).tenants
    now = present_ops(seen)
    then = plan(_shrunk(seen, rows), EVERYBODY, STATIC).actions
    for tenant, row, action in zip(seen.tenants, rows, then, strict=True):
        assert row.least_bytes >= tenant.floor_bytes or not row.kept
        if not row.kept:
            assert asked.of(tenant.cgroup).has_slo
            assert (row.least_bytes, row.more_of_this_kind) == (tenant.limit_bytes, 0)
        elif tenant.cgroup == "/t00000":
            assert action.present.throughput_ops >= ops * (1 - 1e-6)
        elif tenant.cgroup == "/t00001":
            assert 1 - action.present.miss_ratio >= hits - 1e-6
        else:
            assert action.present.throughput_ops >= now[row.cgroup] * (1 - TOLERANCE - 1e-6)
            assert row.least_bytes <= tenant.limit_bytes


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from((50.0, 300.0, 1000.0)))
def test_with_a_page_less_no_policy_keeps_an_slo(seed: int, ops: float) -> None:
    seen = snapshot(seed, 1, policies=3)
    tenant = replace(seen.tenants[0], floor_bytes=0)
    seen = replace(seen, tenants=(tenant,))
    row = consolidate([seen], Objectives((Objective("*", throughput_ops=ops),)), Config()).tenants[
        0
    ]
    if not row.kept or row.least_bytes <= 2 * PAGE_BYTES:
        return
    for policy in ("policy0", "policy1", "policy2"):
        less = replace(tenant, policy=policy, limit_bytes=row.least_bytes - 2 * PAGE_BYTES)
        found = plan(replace(seen, tenants=(less,)), EVERYBODY, STATIC).actions[0]
        assert found.present.throughput_ops < ops


def _copies(seen: Snapshot, row: int, count: int) -> Snapshot:
    more = (replace(seen.tenants[row], cgroup=f"/z{i:05}") for i in range(count))
    return replace(seen, tenants=(*seen.tenants, *more))


def _waits_us(seen: Snapshot, asked: Objectives) -> set[float]:
    """Return the waits in the table of a node."""
    targets = Targets.of(seen, Asked.of(seen, asked), Config())
    return set(WaitTable.of(Needs.of(targets, seen, Config()), seen).waits_us.tolist())


@settings(max_examples=8)
@given(st.integers(0, 10_000), st.integers(1, 4), st.sampled_from(CAPACITIES), st.floats(1, 40))
def test_the_reported_number_of_further_tenants_fits_and_meets_its_slo(
    seed: int, tenants: int, capacity: float, wealth: float
) -> None:
    seen = snapshot(seed, tenants, policies=2, capacity_iops=capacity)
    budget = int(seen.node.budget_bytes * wealth)
    seen = replace(seen, node=replace(seen.node, budget_bytes=budget))
    ops = {name: value * 0.8 for name, value in present_ops(seen).items()}
    first = ops["/t00000"]
    asked = Objectives(
        (
            *(Objective(name, throughput_ops=value) for name, value in ops.items()),
            Objective("/z*", throughput_ops=first),
        )
    )
    rows = consolidate([seen], asked, Config()).tenants
    more = rows[0].more_of_this_kind
    assert all(row.kept for row in rows)
    # The wait at which they fit may lie between the waits of another table.
    known_us = _waits_us(seen, asked)
    assert fits(_copies(seen, 0, more), asked, [True] * (tenants + more), known_us)
    if capacity == 1e12:
        free = budget - sum(row.least_bytes for row in rows)
        assert more == free // rows[0].least_bytes
    # A table of waits loses little by being a table.
    many = int(more * 1.5) + 2
    assert not fits(_copies(seen, 0, many), asked, [True] * (tenants + many))


def test_error_bars_and_model_errors_make_it_take_more() -> None:
    seen = snapshot(3, 3, policies=2)
    asked = Objectives((Objective("/t00000", throughput_ops=150.0), Objective("*")))
    sure = consolidate([seen], asked, Config())
    assert any("error bars are taken as exact" in note for note in sure.notes)
    tenants = []
    for tenant in seen.tenants:
        curves = tenant.curves
        assert curves is not None
        bars = Curves(
            curves.policies, curves.sizes_bytes, curves.miss_ratio, 0.02 + 0 * curves.miss_ratio
        )
        demand = replace(tenant.demand, error_pct=10.0)
        tenants.append(replace(tenant, curves=bars, demand=demand))
    doubtful = consolidate([replace(seen, tenants=tuple(tenants))], asked, Config())
    pairs = list(zip(sure.tenants, doubtful.tenants, strict=True))
    assert all(more.least_bytes >= less.least_bytes for less, more in pairs)
    assert any(more.least_bytes > less.least_bytes for less, more in pairs)
    assert all(more.more_of_this_kind <= less.more_of_this_kind for less, more in pairs)
    assert all(row.kept for row in doubtful.tenants[1:])
    assert not any("taken as exact" in note for note in doubtful.notes)


def test_an_slo_is_met_in_its_share_of_windows_that_are_off_as_much_as_lately() -> None:
    error, wanted_ops = 0.05, 100.0
    off = np.random.default_rng(1).normal(size=100_000)
    windows = 1 + off * error / np.abs(off).mean()
    planned_ops = wanted_ops / (1 - WINDOW_ERRORS * error)
    assert float((planned_ops * windows >= wanted_ops).mean()) == pytest.approx(GOAL, abs=0.002)


def test_the_margin_of_an_slo_follows_the_error_of_single_windows() -> None:
    seen = snapshot(3, 3, policies=2)
    asked = Objectives((Objective("/t00000", throughput_ops=100.0), Objective("*")))

    def needed_ops(error_pct: float) -> float:
        first = seen.tenants[0]
        off = replace(first, demand=replace(first.demand, error_pct=error_pct))
        wanted = replace(seen, tenants=(off, *seen.tenants[1:]))
        targets = Targets.of(wanted, Asked.of(wanted, asked), Config())
        return float(targets.min_ops[0])

    assert needed_ops(0.0) == pytest.approx(100.0)
    assert needed_ops(5.0) == pytest.approx(100 / (1 - 0.05 * WINDOW_ERRORS))
    assert needed_ops(50.0) == pytest.approx(100 / (1 - MARGIN_MAX))


def test_a_tenant_without_usable_curves_counts_with_its_present_memory() -> None:
    seen = snapshot(3, 3, policies=2)
    blind = replace(seen.tenants[0], curves=None)
    doubtful = replace(seen.tenants[1], trust=Trust(False, "few"))
    seen = replace(seen, tenants=(blind, doubtful, seen.tenants[2]))
    found = consolidate([seen], EVERYBODY, Config())
    for tenant, row in zip(seen.tenants[:2], found.tenants, strict=False):
        assert (row.least_bytes, row.least_policy) == (tenant.limit_bytes, tenant.policy)
    assert any("for want of curves: /t00000, /t00001" in note for note in found.notes)


def test_rows_show_whether_a_tenant_has_an_slo_and_known_needs() -> None:
    seen = snapshot(3, 5, policies=2)
    quiet = replace(seen.tenants[3].indicators, latency_p99_us=None)
    tenants = [
        replace(one, trust=Trust(False, "few")) if at in (1, 2) else one
        for at, one in enumerate(seen.tenants)
    ]
    tenants[3] = replace(tenants[3], indicators=quiet)
    asked = Objectives(
        (
            Objective("/t00001", throughput_ops=1e9),
            Objective("/t00002", throughput_ops=1e-3),
            Objective("/t00003", latency_p99_us=1.0),
            Objective("/t00004", throughput_ops=1e9),
            Objective("*"),
        )
    )
    found = consolidate([replace(seen, tenants=tuple(tenants))], asked, Config())
    assert found.nodes == 1
    rows = [(row.has_slo, row.known, row.kept) for row in found.tenants]
    free, blind, easy, unmeasured, beyond = rows
    assert free == (False, True, True)
    assert blind == (True, False, False), "more memory might keep it"
    assert easy == (True, False, True), "what is measured now predicts nothing"
    assert unmeasured[:2] == (True, False), "there is no p99 to compare with"
    assert beyond == (True, True, False)


def test_an_slo_that_is_measurably_missed_is_not_said_to_be_met_without_curves() -> None:
    seen = snapshot(3, 2, policies=2)
    slow = replace(seen.tenants[0].indicators, throughput_ops=0.5)
    blind = replace(seen.tenants[0], trust=Trust(False, "few"), indicators=slow)
    asked = Objectives((Objective("/t00000", throughput_ops=1.0), Objective("*")))
    rows = consolidate([replace(seen, tenants=(blind, seen.tenants[1]))], asked, Config()).tenants
    assert (rows[0].known, rows[0].note) == (False, "not known: what its SLOs would take")


def test_pins_memory_bounds_and_allowed_policies_hold() -> None:
    seen = snapshot(3, 3, policies=3)
    other = next(name for name in ("policy0", "policy1") if name != seen.tenants[1].policy)
    asked = Objectives(
        (
            Objective("/t00001", policies=(other,), throughput_ops=1.0),
            Objective("/t00002", throughput_ops=1e9, memory_max=parse_size("8MiB")),
            Objective("*"),
        )
    )
    limit = seen.tenants[0].limit_bytes - PAGE_BYTES
    pinned = with_pins(asked, [Pin(cgroup="/t00000", limit_bytes=limit)], "node")
    rows = consolidate([seen], pinned, Config()).tenants
    assert rows[0].least_bytes == limit
    assert (rows[1].least_policy, rows[1].kept) == (other, True)
    assert not rows[2].kept


def test_empty_fleets_and_duplicate_nodes() -> None:
    assert consolidate([], EVERYBODY, Config()).tenants == []
    seen = snapshot(3, 2, policies=2)
    with pytest.raises(InputError, match="node node: two snapshots"):
        consolidate([seen, seen], EVERYBODY, Config())
    empty = replace(seen, tenants=(), node=replace(seen.node, name="empty", budget_bytes=MIB))
    found = consolidate([empty, seen], EVERYBODY, Config())
    assert moves_of(found) == {"empty": {}}
    small = replace(seen, node=replace(seen.node, budget_bytes=MIB))
    over = consolidate([small], EVERYBODY, Config())
    assert [row.more_of_this_kind for row in over.tenants] == [0, 0]
    assert any("more than its budget" in note for note in over.notes)
    with pytest.raises(SnapshotError, match="error_bar must be at least 0"):
        Curves(("lru",), np.array([4096]), np.array([[0.5]]), np.array([[-0.1]]))
    with pytest.raises(SnapshotError, match="error_bar must have the shape"):
        Curves(("lru",), np.array([4096]), np.array([[0.5]]), np.array([0.1]))
