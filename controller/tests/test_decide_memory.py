# SPDX-License-Identifier: Apache-2.0
"""The rules for memory as a pure function: when limits change, and when they are rolled back."""

import math

import numpy as np
import pytest
from memory_node import MIB, Node, Tenant, pair, worth

from cachepilot.domain.decisions import Event
from cachepilot.model.gain import LEAST_INTERVALS, Gain
from cachepilot.sense.filling import FILLED_S


def test_a_gain_is_waited_for_until_it_exceeds_what_it_may_cost_and_then_kept() -> None:
    node = Node(*pair())
    cost = 64 * 256 * 500e-6
    rate = worth(192, 400) - worth(128, 400) - math.sqrt(2) * 0.01
    assert node.run(math.floor(cost / rate)) == []
    assert node.run(2) == [Event.TRIAL]
    assert node.run(60) == [Event.KEPT]
    assert node.tenants["/0"].limit_mib == 192 and node.tenants["/1"].limit_mib == 64


def test_a_donor_that_loses_more_than_its_curve_says_gets_its_memory_back() -> None:
    node = Node(*pair(knee_mib=120.0))
    assert node.run(100)[:2] == [Event.TRIAL, Event.REVERTED]
    assert node.state.lost > 0 and not node.state.restore
    assert all(one.limit_mib == 128 for one in node.tenants.values())


def test_a_change_is_not_judged_by_a_promise_before_its_page_caches_are_full() -> None:
    taker, donor = pair()
    node = Node(taker, donor)
    while node.run(1) != [Event.TRIAL]:
        pass
    taker.knee_mib, taker.changes = 260.0, {"is_filling": True}
    change = node.state.change
    assert change is not None and node.run(30) == [] and change.settled_s is None
    taker.knee_mib, taker.changes = 400.0, {}
    assert node.run(30) == [Event.KEPT] and change.settled_s is not None


def test_a_page_cache_that_never_fills_does_not_keep_a_change_from_being_judged() -> None:
    taker, donor = pair()
    node = Node(taker, donor)
    while node.run(1) != [Event.TRIAL]:
        pass
    taker.changes = {"is_filling": True}
    assert node.run(2 * int(FILLED_S) + 30) == [Event.KEPT]


def test_what_was_lost_by_a_change_is_asked_of_the_next() -> None:
    node = Node(*pair(knee_mib=120.0))
    node.run(100)
    began = [one for one in node.told if one.event is Event.TRIAL and one.cgroup == "/0"]
    lost = node.state.lost
    assert lost > 0
    rate = worth(192, 400) - worth(128, 400)
    assert len(began) <= 1 + 100 / (lost / rate)


def test_a_gain_that_may_be_error_moves_nothing() -> None:
    taker, donor = pair()
    taker.changes = {"error_at": lambda _: 1.0}
    assert Node(taker, donor).run(300) == []


def test_a_gain_that_is_too_small_moves_nothing() -> None:
    taker, donor = pair()
    taker.planned_mib, donor.planned_mib = 130.0, 126.0
    assert Node(taker, donor).run(300) == []


def test_noise_alone_moves_nothing_and_undoes_nothing() -> None:
    undone = 0
    for seed in range(40):
        node = Node(*pair(), seed=seed, scatter=0.2)
        undone += Event.REVERTED in node.run(120)
        still = Node(Tenant(400, 400), Tenant(40, 40), seed=seed, scatter=0.2)
        assert still.run(120) == []
    assert undone <= 2


def test_a_sum_of_noise_is_beyond_its_bound_at_any_time_no_oftener_than_stated() -> None:
    random, alpha, runs = np.random.default_rng(1), 0.05, 1500

    def is_ever_beyond() -> bool:
        gain = Gain()
        for one in random.normal(0, 1, 60):
            gain.take(float(one))
            if gain.intervals >= LEAST_INTERVALS and gain.total > gain.sure_bound(alpha):
                return True
        return False

    # Allow three standard errors of the share. `bound`, which is for one look, is beyond that.
    beyond = sum(is_ever_beyond() for _ in range(runs))
    assert beyond <= runs * (alpha + 3 * math.sqrt(alpha / runs))


def test_a_donor_without_budget_gives_nothing_but_to_an_slo() -> None:
    taker, donor = pair()
    donor.changes = {"spare_bytes": 0}
    node = Node(taker, donor)
    assert node.run(100) == []
    taker.changes = {"is_short": True, "reached": 0.8, "reached_planned": 1.0, "priority": 1}
    assert node.run(1) == [Event.TRIAL]
    assert node.run(20) == [Event.KEPT]


def test_an_slo_takes_what_it_needs_and_the_rest_of_the_plan_waits_for_evidence() -> None:
    taker, donor = pair()
    taker.changes = {"is_short": True, "reached": 0.8, "reached_planned": 1.0, "priority": 1}
    taker.needs_mib = 135.0
    donor.changes = {"spare_bytes": 0}
    node = Node(taker, donor)
    assert node.run(1) == [Event.TRIAL]
    assert [one.predicted.ops for one in node.told] == [136 * MIB, 120 * MIB]
    taker.changes = {"reached_planned": 1.0, "priority": 1}
    assert node.run(100) == [Event.KEPT]
    assert (taker.limit_mib, donor.limit_mib) == (136, 120)
    donor.changes = {}
    assert node.run(100) == [Event.TRIAL, Event.KEPT]
    assert (taker.limit_mib, donor.limit_mib) == (192, 64)


def test_an_slo_takes_nothing_from_one_of_a_higher_priority_that_then_misses_its_own() -> None:
    taker, donor = pair()
    taker.changes = {"is_short": True, "reached": 0.8, "reached_planned": 1.0, "priority": 1}
    donor.changes = {"reached": 1.0, "reached_planned": 0.7, "priority": 2, "spare_bytes": 0}
    assert Node(taker, donor).run(100) == []


def test_what_a_tenant_keeps_is_given_back_once_it_lacked_what_that_costs() -> None:
    taker, donor = pair()
    taker.changes, donor.changes = {"below": 0.2, "worth_planned": 0.0}, {"error_at": lambda _: 9.0}
    node = Node(taker, donor)
    lacked_s = 64 * 256 * 500e-6 / 0.2
    assert node.run(math.floor(lacked_s) - 1) == []
    assert Event.TRIAL in node.run(3)


SLO = {"has_slo": True, "worth_planned": 0.0}
"""Changes for these tenants gain nothing for the goal."""


@pytest.mark.parametrize(
    ("taker", "donor", "priority", "is_done"),
    [
        # An SLO comes before what others keep, and before margins above SLOs of its priority.
        ({**SLO, "reached": 0.9}, {"below_planned": 0.3}, 0, True),
        ({**SLO, "reached": 0.9}, {**SLO, "aimed_planned": 0.7}, 0, True),
        # What a tenant keeps comes before those margins, unless that SLO has a higher priority.
        ({"below": 0.1}, {**SLO, "aimed_planned": 0.6}, 0, True),
        ({"below": 0.1}, {**SLO, "aimed_planned": 0.6}, 1, False),
        ({**SLO, "aimed": 0.6}, {"below_planned": 0.1}, 0, False),
        # An SLO that cannot be met comes after what tenants of its priority keep.
        ({"below": 0.1}, {**SLO, "is_left_out": True, "reached_planned": 0.5}, 0, True),
        ({"below": 0.1}, {**SLO, "is_left_out": True, "reached_planned": 0.5}, 1, False),
        ({**SLO, "reached": 0.9}, {**SLO, "is_left_out": True, "reached_planned": 0.5}, 1, True),
    ],
)
def test_limits_move_in_the_order_in_which_memory_is_planned(
    taker: dict[str, object], donor: dict[str, object], priority: int, is_done: bool
) -> None:
    first, second = pair()
    first.changes = {"worth_planned": 0.0, **taker}
    second.changes = {"error_at": lambda _: 9.0, **donor, "priority": priority}
    assert (Event.TRIAL in Node(first, second).run(200)) == is_done


def test_an_slo_that_is_missed_is_served_though_margins_of_others_pay_for_it() -> None:
    taker, donor = pair()
    taker.changes = {**SLO, "is_short": True, "reached": 0.9, "aimed": 0.9}
    donor.changes = {**SLO, "aimed_planned": 0.7, "error_at": lambda _: 9.0}
    assert Node(taker, donor).run(1) == [Event.TRIAL]


@pytest.mark.parametrize("is_gap", [False, True])
def test_nothing_begins_that_may_not(is_gap: bool) -> None:
    changes = {"is_gap": True} if is_gap else {"may_begin": False}
    assert Node(*pair()).run(100, **changes) == []


def test_a_plan_that_counts_on_who_may_not_change_now_is_not_followed() -> None:
    taker, donor = pair()
    donor.changes = {"is_free": False}
    node = Node(taker, donor)
    assert node.run(100) == []
    donor.changes = {}
    assert Event.TRIAL in node.run(40)


def test_what_the_node_took_back_is_abandoned() -> None:
    taker, donor = pair()
    node = Node(taker, donor)
    node.begin()
    donor.changes = {"undone": 7}
    assert Event.ABANDONED in node.run(1)
    assert node.state.change is None


def test_a_change_of_tenants_that_do_nothing_is_given_up() -> None:
    taker, donor = pair()
    node = Node(taker, donor)
    node.begin()
    node.run(1)
    taker.changes = donor.changes = {"worth_measured": None}
    assert Event.ABANDONED in node.run(700)


def test_an_interval_in_which_nobody_did_anything_does_not_end_a_long_trial() -> None:
    taker, donor = pair()
    node = Node(taker, donor, seed=3, scatter=20.0)
    node.begin()
    assert node.run(700) == []
    taker.changes = donor.changes = {"worth_measured": None}
    assert node.run(5) == [] and node.state.change is not None


def test_while_a_page_cache_turns_over_after_a_swap_nothing_is_judged() -> None:
    taker, donor = pair()
    node = Node(taker, donor)
    change = node.begin()
    node.run(5)
    assert change.since.intervals > 0
    donor.changes = {"is_settling": True, "worth_measured": -50.0}
    assert node.run(30) == [] and change.gained.total > 0
    # The prediction under the earlier policy is replaced by a new one.
    assert change.expected is None and change.since.intervals == 0
    donor.changes = {}
    assert node.run(10) == [Event.KEPT]


def test_who_is_not_to_go_on_stays_when_a_plan_changes_on_the_way() -> None:
    taker, donor = pair()
    other = Tenant(400.0, 400.0)
    node = Node(taker, donor, other)
    node.begin()
    node.run(1)
    taker.planned_mib, other.planned_mib = taker.limit_mib, 160.0
    other.changes = {"is_short": True, "reached": 0.8, "reached_planned": 1.0, "priority": 1}
    node.run(1)
    assert node.state.change is not None
    assert node.state.change.members["/0"].to_bytes == int(taker.limit_mib * MIB)


def test_a_promise_is_of_those_who_are_still_there() -> None:
    taker, donor = pair()
    donor.changes = {"reread_at": lambda _: 0.1}
    node = Node(taker, donor, Tenant(160.0, 160.0, planned_mib=160.0))
    node.begin()
    del node.tenants["/2"]
    taker.knee_mib = 500.0
    assert node.run(30) == [Event.KEPT] and donor.limit_mib == 64


def test_gain_and_cost_of_who_is_gone_are_not_those_of_the_others() -> None:
    taker, donor = pair()
    other = Tenant(40.0, 40.0, planned_mib=96.0)
    node = Node(taker, donor, other)
    change = node.begin()
    node.run(1)
    reread_s = 64 * 256 * 500e-6
    assert change.cost == pytest.approx(1.5 * reread_s)
    other.knee_mib = 1000.0
    node.run(2)
    assert change.gained.total < 0
    del node.tenants["/2"]
    node.run(1)
    assert change.cost == pytest.approx(reread_s) and change.gained.total > 0
    assert node.run(30) == [Event.KEPT]


def test_who_is_gone_when_the_goal_changes_is_told_of_as_are_the_others() -> None:
    taker, donor = pair()
    node = Node(taker, donor)
    node.begin()
    node.run(1)
    del node.tenants["/1"]
    before = len(node.told)
    node.run(1, goal="total_throughput")
    told = {one.cgroup: one for one in node.told[before:]}
    assert {name: one.event for name, one in told.items()} == dict.fromkeys(
        ("/0", "/1"), Event.ABANDONED
    )
    assert told["/1"].why == "the cgroup is gone" and set(node.state.restore) == {"/0"}


@pytest.mark.parametrize(("knee_mib", "event"), [(400.0, Event.KEPT), (636.0, Event.REVERTED)])
def test_what_promises_nothing_any_more_is_kept_only_for_a_gain_that_is_measured(
    knee_mib: float, event: Event
) -> None:
    taker, donor = pair()
    node = Node(taker, donor)
    change = node.begin()
    node.run(1)
    change.expected = -0.1
    taker.knee_mib = knee_mib
    assert node.run(20)[:1] == [event]
    why = next(one.why.partition("; this")[0] for one in node.told if one.event is event)
    assert (
        why
        == {
            Event.KEPT: "all together gain by it, though no gain was predicted",
            Event.REVERTED: "no gain is predicted by now, and none is certain by measurement",
        }[event]
    )


@pytest.mark.parametrize(
    ("goal", "weight"), [("total_throughput", 1.0), ("proportional_fairness", 2.0)]
)
def test_what_was_counted_towards_another_goal_counts_no_more(goal: str, weight: float) -> None:
    taker, donor = pair(knee_mib=120.0)
    node = Node(taker, donor)
    node.run(100)
    assert node.state.lost > 0 and node.state.evidence
    donor.changes = {"weight": weight}
    taker.planned_mib = donor.planned_mib = 128.0
    node.run(1, goal=goal)
    assert node.state.lost == 0 and not node.state.evidence


@pytest.mark.parametrize("forced", [False, True])
def test_a_change_for_another_goal_is_taken_back_unless_it_is_needed(forced: bool) -> None:
    taker, donor = pair()
    node = Node(taker, donor)
    change = node.begin()
    change.forced = forced
    taker.changes = {"is_short": forced}
    found = node.run(1, goal="total_throughput")
    assert found == ([] if forced else [Event.ABANDONED])
    if not forced:
        taker.planned_mib = donor.planned_mib = 128.0
    node.run(30, goal="total_throughput")
    assert taker.limit_mib == (192 if forced else 128)


def test_another_tenant_is_no_other_goal() -> None:
    node = Node(*pair(knee_mib=120.0))
    node.run(100)
    lost = node.state.lost
    node.tenants["/2"] = Tenant(128.0, 128.0, changes={"weight": 3.0})
    node.run(2)
    assert node.state.lost == lost
