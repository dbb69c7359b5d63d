# SPDX-License-Identifier: Apache-2.0
"""Counterfactuals in snapshots: differences of totals, and refusals."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachepilot.errors import InputError
from cachepilot.sense.counterfactuals import (
    GROUPS_MAX,
    POLICIES_MAX,
    Counterfactual,
    Counterfactuals,
)
from cachepilot.sizes import PAGE_BYTES
from cachepilot.v1 import session_pb2 as wire

NAN, INF = float("nan"), float("inf")
PLAIN: dict[str, Any] = {
    "generation": 1,
    "policies": ["default", "lru"],
    "accesses_total": [10.0, 10.0, 10.0],
    "misses_total": [6.0, 5.0, 4.0, 3.0, 2.0, 1.0],
    "reread_pages": [7.0, 8.0],
    "size_bytes": 100 * PAGE_BYTES,
    "rate": 0.5,
}
LATER = {"misses_total": [8.0, 8.0, 8.0, 8.0, 8.0, 8.0]}


def tenant(**changed: Any) -> wire.Tenant:
    """Return a tenant with the counterfactuals `PLAIN`, except for what is changed."""
    return wire.Tenant(counterfactuals=wire.Counterfactuals(**(PLAIN | changed)))


def shaped(policies: int, groups: int) -> dict[str, Any]:
    names = ["default", *(f"p{i}" for i in range(1, policies))][:policies]
    return {
        "policies": names,
        "accesses_total": [1.0] * groups,
        "misses_total": [1.0] * (policies * groups),
        "reread_pages": [0.0] * policies,
    }


def taken(*seen: wire.Tenant) -> list[Counterfactual | None]:
    totals = Counterfactuals()
    return [totals.take(one) for one in seen]


def test_an_interval_is_the_difference_of_two_totals() -> None:
    changed = LATER | {"reread_pages": [1.0, 2.0], "size_bytes": 10 * PAGE_BYTES, "rate": 0.25}
    first, found = taken(tenant(), tenant(**changed))
    assert first is None and found is not None
    assert found.policies == ("default", "lru")
    assert found.misses.tolist() == [[2, 3, 4], [5, 6, 7]]
    assert found.reread.tolist() == [1, 2]
    assert (found.cache_pages, found.rate) == (10, 0.25)


@given(st.lists(st.lists(st.integers(0, 1 << 40), min_size=6, max_size=6), min_size=2, max_size=9))
def test_intervals_sum_up_to_the_totals(steps: list[list[int]]) -> None:
    totals = np.cumsum(np.array(steps, dtype=float), axis=0)
    first, *later = taken(*(tenant(misses_total=row.tolist()) for row in totals))
    assert first is None
    found = sum(one.misses for one in later if one is not None)
    assert np.array_equal(np.ravel(found), totals[-1] - totals[0])


@pytest.mark.parametrize(
    ("broken", "names"),
    [
        pytest.param(shaped(0, 3), "0 policies, 3 groups, 0 totals", id="no policies"),
        pytest.param(shaped(POLICIES_MAX + 1, 2), f"{POLICIES_MAX + 1} policies", id="policies"),
        pytest.param(shaped(2, 1), "2 policies, 1 groups, 2 totals", id="one group"),
        pytest.param(shaped(1, GROUPS_MAX + 1), f"{GROUPS_MAX + 1} groups", id="groups"),
        pytest.param({"policies": ["default", "default"]}, "2 policies", id="twice"),
        pytest.param({"misses_total": [1.0] * 5}, "3 groups, 5 totals", id="totals"),
        pytest.param({"reread_pages": [1.0]}, "2 policies", id="reread"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(broken: dict[str, Any], names: str) -> None:
    with pytest.raises(InputError) as caught:
        taken(tenant(**broken))
    told = str(caught.value)
    assert told.startswith("counterfactuals: ") and names in told and "\n" not in told
    assert f"1 to {POLICIES_MAX} policies, 2 to {GROUPS_MAX} groups" in told


@pytest.mark.parametrize("shape", [(1, 2), (1, GROUPS_MAX), (POLICIES_MAX, 2)])
def test_the_ends_of_the_range_are_taken(shape: tuple[int, int]) -> None:
    one = tenant(**shaped(*shape))
    found = taken(one, one)[1]
    assert found is not None and found.misses.shape == shape and not found.misses.any()


@pytest.mark.parametrize("key", ["misses_total", "reread_pages"])
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_values_that_are_no_numbers_are_refused(key: str, value: float) -> None:
    with pytest.raises(InputError, match=r"^counterfactuals: a value .*allowed: 0 or more"):
        taken(tenant(**{key: [*PLAIN[key][:-1], value]}))


def test_fewer_than_no_pages_to_reread_are_refused() -> None:
    with pytest.raises(InputError, match=r"^counterfactuals: a value .*allowed: 0 or more"):
        taken(tenant(reread_pages=[0.0, -1.0]))


def test_the_default_comes_first() -> None:
    with pytest.raises(InputError, match=r"^counterfactuals: policies: lru .*allowed: default"):
        taken(tenant(policies=["lru", "default"]))


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.0000001, NAN, INF])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match=r"^counterfactuals: rate: .*above 0, at most 1"):
        taken(tenant(rate=rate))


@pytest.mark.parametrize("rate", [1e-9, 1.0])
def test_a_rate_at_the_end_of_its_range_is_taken(rate: float) -> None:
    found = taken(tenant(rate=rate), tenant(rate=rate))[1]
    assert found is not None and found.rate == rate


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"generation": 2} | LATER, id="simulated caches began anew"),
        pytest.param({"policies": ["default", "mru"]} | LATER, id="other policies"),
        pytest.param({"misses_total": [9.0, 9.0, 9.0, 9.0, 9.0, 0.5]}, id="one total fell"),
    ],
)
def test_totals_that_restarted_are_no_interval_and_the_next_are(other: dict[str, Any]) -> None:
    found = taken(tenant(), tenant(**other), tenant(**other))
    assert found[:2] == [None, None]
    assert found[2] is not None and not found[2].misses.any()


def test_another_number_of_groups_with_a_new_generation_is_no_interval() -> None:
    assert taken(tenant(), tenant(generation=2, **shaped(2, 5))) == [None, None]


def test_an_interval_without_counterfactuals_breaks_the_differences() -> None:
    found = taken(tenant(), wire.Tenant(), tenant(**LATER), tenant(**LATER))
    assert found[:3] == [None, None, None] and found[3] is not None


def test_nothing_is_compared_with_totals_that_were_forgotten() -> None:
    totals = Counterfactuals()
    totals.take(tenant())
    totals.forget()
    assert totals.take(tenant(**LATER)) is None
    assert totals.take(tenant(**LATER)) is not None


def test_nothing_is_compared_with_what_came_before_a_refusal() -> None:
    totals = Counterfactuals()
    totals.take(tenant())
    with pytest.raises(InputError):
        totals.take(tenant(rate=2.0))
    assert totals.take(tenant(**LATER)) is None
