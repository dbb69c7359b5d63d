# SPDX-License-Identifier: Apache-2.0
"""What-if: fixed settings hold exactly, the settled state is settled, bad questions refused."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import geometric_mean

import pytest
from experiments.control_loop.instances import MIB, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from cachepilot.domain.objectives.objective import Goal, Mode, Objective, Objectives
from cachepilot.domain.snapshot import Snapshot, Trust
from cachepilot.domain.what_if import WhatIf
from cachepilot.errors import InputError
from cachepilot.plan.allocators import ALLOCATORS
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.config import Config
from cachepilot.plan.what_if import what_if
from cachepilot.sizes import pages_up

EVERYBODY = Objectives((Objective("*"),))


@settings(max_examples=30)
@given(
    st.integers(0, 10_000),
    st.integers(1, 6),
    st.sampled_from(sorted(ALLOCATORS)),
    st.sampled_from(sorted(Mode)),
    st.floats(0.6, 3),
    st.floats(0, 1),
    st.booleans(),
)
def test_the_asked_settings_hold_exactly(
    seed: int,
    tenants: int,
    allocator: str,
    mode: Mode,
    wealth: float,
    part: float,
    is_settled: bool,
) -> None:
    seen = snapshot(seed, tenants, policies=3, capacity_iops=(1e12, 2000.0)[seed % 2])
    budget = max(int(seen.node.budget_bytes * wealth), sum(t.limit_bytes for t in seen.tenants))
    first = seen.tenants[0]
    others = sum(tenant.limit_bytes for tenant in seen.tenants[1:])
    least = pages_up(first.floor_bytes)
    limit = least + int((budget - others - least) * part) // 4096 * 4096
    question = WhatIf(
        node="node",
        budget_bytes=budget,
        policy={"/t00000": f"policy{seed % 3}"},
        limit_bytes={"/t00000": limit},
        throughput_ops={"/t00000": 500.0},
        settled=is_settled,
    )
    asked = Objectives((Objective("*", mode=mode),))
    answer = what_if(seen, asked, Config(allocator=allocator), question)
    row = answer.tenants[0]
    assert (row.to_policy, row.to_limit_bytes) == (f"policy{seed % 3}", limit)
    assert (row.policy, row.limit_bytes) == (first.policy, first.limit_bytes)
    assert [slo.target for slo in row.slos] == [500.0]
    assert row.slos[0].measured == first.indicators.throughput_ops
    total = sum(one.to_limit_bytes for one in answer.tenants)
    assert total + answer.unallocated_bytes == budget
    curves = first.curves
    assert curves is not None
    expected = curves.miss_ratio[curves.policies.index(row.to_policy)].min()
    assert row.to_miss_ratio >= expected - 1e-12


def _together(ops: Sequence[float], goal: Goal) -> float:
    """Return the value of the goal, in operations per second."""
    return sum(ops) if goal is Goal.TOTAL_THROUGHPUT else geometric_mean(ops)


def _cycles(seen: Snapshot, asked: Objectives, config: Config, count: int) -> float:
    """Return the value of the goal after so many cycles."""
    for _ in range(count):
        found = plan(seen, asked, config)
        moved = tuple(
            replace(tenant, policy=action.policy, limit_bytes=action.limit_bytes)
            for tenant, action in zip(seen.tenants, found.actions, strict=True)
        )
        seen = replace(seen, tenants=moved)
    actions = plan(seen, asked, config).actions
    return _together([action.present.throughput_ops for action in actions], asked.goal)


@pytest.mark.parametrize("goal", [Goal.PROPORTIONAL_FAIRNESS, Goal.TOTAL_THROUGHPUT])
@pytest.mark.parametrize("seed", range(8))
def test_the_settled_state_is_where_many_cycles_lead_or_better(seed: int, goal: Goal) -> None:
    asked = replace(EVERYBODY, goal=goal)
    seen = snapshot(seed, tenants=5, policies=3, capacity_iops=(1e12, 3000.0)[seed % 2])
    answer = what_if(seen, asked, Config(), WhatIf(node="node"))
    then = _together([row.to_throughput_ops for row in answer.tenants], goal)
    assert then >= 0.99 * _cycles(seen, asked, Config(movement_share=0.2), 20)
    free = Config(movement_share=1.0, switch_cost=0.0, move_cost=0.0)
    assert then == pytest.approx(_cycles(seen, asked, free, 4), rel=0.01)


def test_the_next_cycle_is_what_the_plan_says() -> None:
    seen = snapshot(5, tenants=4, policies=3)
    asked = Objectives((Objective("/t00001", throughput_ops=900.0), Objective("*")))
    answer = what_if(seen, asked, Config(), WhatIf(node="node", settled=False))
    found = plan(seen, asked, Config())
    assert [(row.to_policy, row.to_limit_bytes) for row in answer.tenants] == [
        (action.policy, action.limit_bytes) for action in found.actions
    ]
    assert answer.tenants[1].slos[0].state == found.slos[0].state
    assert answer.device_share == found.device_share


def test_an_slo_for_an_unmatched_tenant_makes_it_planned() -> None:
    seen = snapshot(5, tenants=3, policies=3)
    question = WhatIf(node="node", throughput_ops={"/t00001": 1e9})
    answer = what_if(seen, Objectives(()), Config(), question)
    assert answer.tenants[1].slos[0].state == "unattainable"
    assert answer.tenants[0].to_limit_bytes == answer.tenants[0].limit_bytes
    notes = [note for note in answer.notes if note.startswith("mode observe: held at the current")]
    assert [note.endswith("except for pins: /t00000, /t00002") for note in notes] == [True]
    observed = Objectives((Objective("*", mode=Mode.OBSERVE),))
    assert what_if(seen, observed, Config(), question).tenants[1].slos[0].state == "held"


def test_a_tenant_that_is_observed_is_predicted_by_its_curves_where_something_is_fixed() -> None:
    seen = snapshot(5, tenants=2, policies=3)
    least = pages_up(seen.tenants[0].floor_bytes)
    answers = [
        what_if(seen, Objectives(()), Config(), WhatIf(node="node", limit_bytes={"/t00000": size}))
        for size in (least, seen.tenants[0].limit_bytes)
    ]
    small, large = (answer.tenants[0] for answer in answers)
    assert small.to_miss_ratio > large.to_miss_ratio
    assert small.to_throughput_ops < large.to_throughput_ops


def test_a_missing_prediction_is_noted() -> None:
    seen = snapshot(5, tenants=2, policies=3)
    doubtful = replace(seen.tenants[0], trust=Trust(False, "too few"))
    seen = replace(seen, tenants=(doubtful, seen.tenants[1]))
    question = WhatIf(node="node", policy={"/t00000": "policy2"})
    answer = what_if(seen, EVERYBODY, Config(), question)
    row = answer.tenants[0]
    assert row.to_policy == "policy2" and not row.predicted
    assert row.miss_ratio == pytest.approx(doubtful.indicators.miss_ratio)
    assert row.throughput_ops != pytest.approx(doubtful.indicators.throughput_ops), "the model's"
    assert any("the model is not reliable yet" in note for note in answer.notes)


def test_more_memory_goes_to_tenants_or_stays_free() -> None:
    seen = snapshot(5, tenants=3, policies=3)
    budget = 16 * seen.node.budget_bytes
    asked = Objectives((Objective("*"),), Goal.LEAST_MEMORY)
    more = what_if(seen, EVERYBODY, Config(), WhatIf(node="node", budget_bytes=budget))
    least = what_if(seen, asked, Config(), WhatIf(node="node", budget_bytes=budget))
    for row, thrifty in zip(more.tenants, least.tenants, strict=True):
        assert row.to_throughput_ops >= row.throughput_ops * (1 - 1e-9)
        assert thrifty.to_limit_bytes <= thrifty.limit_bytes
    assert least.unallocated_bytes >= more.unallocated_bytes


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (WhatIf(node="other"), r"what-if: node: 'other' \(allowed: node\)"),
        (WhatIf(node="node", budget_bytes=0), r"what-if: budget_bytes: 0 \(allowed: 1 to "),
        (WhatIf(node="node", budget_bytes=4096), r"budget_bytes: 4096 \(allowed: at least \d+, "),
        (WhatIf(node="node", policy={"/x": "lru"}), r"policy: '/x' .*allowed: /t00000, /t00001"),
        (WhatIf(node="node", policy={"/t00000": "lru"}), r"policy: /t00000: .*: policy0, policy1"),
        (WhatIf(node="node", limit_bytes={"/x": 4096}), r"limit_bytes: '/x' .*allowed: /t00000"),
        (WhatIf(node="node", limit_bytes={"/t00000": 4096}), r"/t00000: limit 4 KiB is below"),
        (
            WhatIf(node="node", limit_bytes={"/t00000": 64 * MIB + 1}),
            r"/t00000: .* not whole pages",
        ),
        (WhatIf(node="node", limit_bytes={"/t00000": 128 * MIB}), r"limit_bytes: 128 MiB in all"),
        (WhatIf(node="node", limit_bytes={"/t00000": 1 << 40}), r"/t00000: limit 1 TiB is above"),
        (WhatIf(node="node", throughput_ops={"/x": 1.0}), r"throughput_ops: '/x'"),
        (WhatIf(node="node", throughput_ops={"/t00000": 0.0}), r"throughput_ops: /t00000: 0\.0 "),
        (WhatIf(node="node", throughput_ops={"/t00000": float("nan")}), r"allowed: above 0 to"),
    ],
)
def test_invalid_questions_are_refused_by_key(question: WhatIf, message: str) -> None:
    seen = snapshot(5, tenants=2, policies=2)
    with pytest.raises(InputError, match=message) as caught:
        what_if(seen, EVERYBODY, Config(), question)
    assert str(caught.value).startswith("what-if: ")


def test_the_least_budget_that_a_refusal_names_is_allowed() -> None:
    seen = snapshot(5, tenants=3, policies=2)
    with pytest.raises(InputError, match="at least") as caught:
        what_if(seen, EVERYBODY, Config(), WhatIf(node="node", budget_bytes=4096))
    least = int(str(caught.value).split("at least ")[1].split(",")[0])
    answer = what_if(seen, EVERYBODY, Config(), WhatIf(node="node", budget_bytes=least))
    assert answer.unallocated_bytes == 0
    assert [r.to_limit_bytes for r in answer.tenants] == [t.floor_bytes for t in seen.tenants]


def test_a_node_without_tenants_has_an_answer() -> None:
    empty = replace(snapshot(5, 1, 1), tenants=())
    answer = what_if(empty, EVERYBODY, Config(), WhatIf(node="node", budget_bytes=5 * MIB))
    assert (answer.tenants, answer.unallocated_bytes) == ([], 5 * MIB)
    with pytest.raises(InputError, match="allowed: none"):
        what_if(empty, EVERYBODY, Config(), WhatIf(node="node", policy={"/a": "lru"}))
