# SPDX-License-Identifier: Apache-2.0
"""Whatever becomes of a change of limits, its prediction is one of the limit that it ends at."""

from hypothesis import given, settings
from hypothesis import strategies as st
from memory_node import MIB, Node, Tenant

from cachepilot.domain.decisions import Event, Reading

TENANTS = 3
NEEDS: list[dict[str, object]] = [
    {},
    {"is_short": True, "reached": 0.8, "reached_planned": 1.0, "priority": 1},
    {"stays": True},
    {"is_set_elsewhere": True, "stays": True},
]
INTERVAL = st.lists(
    st.tuples(st.integers(64, 192), st.sampled_from(NEEDS)), min_size=TENANTS, max_size=TENANTS
)


@settings(max_examples=150, deadline=None)
@given(st.lists(INTERVAL, min_size=1, max_size=8), st.integers(1, 6))
def test_a_decision_predicts_the_limit_that_it_names(
    plans: list[list[tuple[int, dict[str, object]]]], every: int
) -> None:
    tenants = [Tenant(110.0 * (one + 1), 400.0) for one in range(TENANTS)]
    node = Node(*tenants)
    for plan in plans:
        for tenant, (planned_mib, needs) in zip(tenants, plan, strict=True):
            tenant.planned_mib = float(planned_mib)
            # By the model of these tenants a limit of n bytes does n operations per second.
            limit = float(planned_mib * MIB)
            tenant.changes = {**needs, "predicted": Reading(limit, limit)}
        node.run(every)
    for one in node.told:
        if one.event is not Event.REFUSED:
            assert one.predicted.ops == one.after.limit_bytes
        if one.event is Event.TRIAL:
            # Limits and predictions move on; what is said at the beginning has to stay true.
            assert not any(letter.isdigit() for letter in one.why)
