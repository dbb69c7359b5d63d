# SPDX-License-Identifier: Apache-2.0
"""The placement experiment counts correctly, on small fleets."""

from experiments.placement.__main__ import large, small, with_a_day
from experiments.placement.fleets import all_at_once, day_of, fleet_of


def test_fleets_have_memory_to_spare_and_are_of_their_seed() -> None:
    fleet = fleet_of(1, 3, 4, 1e12)
    assert fleet == fleet_of(1, 3, 4, 1e12)
    assert fleet != fleet_of(2, 3, 4, 1e12)
    for seen in fleet:
        assert sum(one.limit_bytes for one in seen.tenants) <= seen.node.budget_bytes


def test_rows_are_shares_of_what_can_be() -> None:
    rows = {row.metric: row.value for row in [*small(1), *large(12, 3, 1)]}
    assert 0 <= rows["placement.small.heuristic_share"] <= 1
    assert rows["placement.small.not_proven"] >= 0
    assert 0 <= rows["placement.12x3.memory_unused"] < 1
    assert rows["placement.12x3.cpu_s.worst"] > 0


def test_needs_of_a_day_take_no_more_nodes_than_all_peaks_at_once() -> None:
    fleet = fleet_of(1, 3, 4, 1e12)
    before = day_of(1, fleet)
    assert before.keys() == {(one.node.name, t.cgroup) for one in fleet for t in one.tenants}
    for key, past in all_at_once(before).items():
        assert past.size_bytes.tolist() == [before[key].size_bytes.max()]
    rows = {row.metric: row.value for row in with_a_day(12, 3, 1)}
    assert rows["placement.12x3.day.nodes_against_peaks"] <= 1
    assert rows["placement.12x3.day.cpu_s.worst"] > 0
