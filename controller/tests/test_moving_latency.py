# SPDX-License-Identifier: Apache-2.0
"""Latency SLOs are judged on disjoint windows, none of them with a cold page cache."""

from dataclasses import replace

import pytest
from moved_fleet import MovedFleet, fleet, tenant

from cachepilot.api.moving.rehearsals import rollout_view
from cachepilot.domain.moving import KEEP, Check, MoveState, RolloutState, Verdict
from cachepilot.fleet.moving.checks import LATENCY, LOOKS_MAX, looks_left, taken
from cachepilot.fleet.moving.judging import WINDOWS
from cachepilot.fleet.moving.seen.observation import SloSeen, TenantSeen
from cachepilot.sense.counters import WINDOW

LOOKS = WINDOW * WINDOWS + 1


def told(met: bool | None) -> TenantSeen:
    return replace(tenant(), slos=(SloSeen(LATENCY, 900.0, met),))


def _moved() -> MovedFleet:
    return fleet("/kv", a={"/kv": told(True)}, b={"/kv": told(True)})


def test_latencies_with_a_cold_page_cache_do_not_count() -> None:
    here = _moved()
    here.there["b"]["/kv"] = told(False)
    while here.rollout.moves[0].looks < WINDOW:
        assert not here.rollout.is_over, here.rollout.why
        here.tick()
    here.there["b"]["/kv"] = told(True)
    over = here.play()
    assert over.state is RolloutState.DONE
    (check,) = [one for one in over.moves[0].checks if one.kind == LATENCY]
    assert (check.windows, check.met, over.moves[0].looks) == (WINDOWS, WINDOWS, LOOKS)


def test_one_slow_interval_is_one_window() -> None:
    here = _moved()
    while here.rollout.moves[0].looks < 2 * WINDOW:
        assert not here.rollout.is_over, here.rollout.why
        here.tick()
    here.there["b"]["/kv"] = told(False)
    for _ in range(WINDOW):
        here.tick()
    here.there["b"]["/kv"] = told(True)
    over = here.play()
    assert over.state is RolloutState.DONE
    (check,) = [one for one in over.moves[0].checks if one.kind == LATENCY]
    assert check.windows - check.met == 1


def test_a_latency_that_is_missed_undoes_the_move() -> None:
    here = _moved()
    here.there["b"]["/kv"] = told(False)
    over = here.play()
    assert over.state is RolloutState.TURNED_BACK
    assert "/kv meets latency_p99_us 900 in 0 of 2 windows" in over.why


def test_a_rehearsal_is_judged_by_the_same_windows_and_predicts_its_time() -> None:
    here = _moved()
    here.rollout = replace(here.rollout, rehearses=True)
    here.squeezed["/kv"] = told(True)
    foreseen = list[float]()
    while not here.orders:
        assert not here.rollout.is_over, here.rollout.why
        here.tick()
        (shown,) = rollout_view(here.rollout, here.now_s, 1.0).rehearsals
        if shown.left_s is not None:
            foreseen.append(here.now_s + shown.left_s)
    rehearsal = here.rollout.moves[0].rehearsal
    assert rehearsal is not None and rehearsal.met_s is not None
    assert rehearsal.nodes[0].looks == LOOKS
    # The first values are from before anything is known.
    assert set(foreseen[2:]) == {rehearsal.met_s}


@pytest.mark.parametrize("met", [True, False])
@pytest.mark.parametrize("kind", [LATENCY, "throughput_ops", KEEP])
def test_a_verdict_is_due_in_bounded_time(kind: str, met: bool) -> None:
    """A verdict comes although most of the windows measure nothing."""
    some = replace(tenant(), slos=(SloSeen(kind, 90.0, met),) if kind != KEEP else ())
    idle = replace(some, ops=None, slos=tuple(replace(one, met=None) for one in some.slos))
    checks: tuple[Check, ...] = (Check("/kv", kind, 90.0, 100.0),)
    for looks in range(1, LOOKS_MAX + 1):
        one = some if looks % (4 * WINDOW) == 1 else idle
        checks = taken(checks, {"/kv": one}, looks, 30)
    assert checks[0].verdict is not Verdict.OPEN


@pytest.mark.parametrize("kind", [LATENCY, "throughput_ops"])
def test_the_predicted_remaining_looks_are_exact(kind: str) -> None:
    check = Check("/kv", kind, 90.0)
    there = {"/kv": replace(tenant(), slos=(SloSeen(kind, 90.0, True),))}
    looks, last = 0, looks_left(check, 0)
    while check.verdict is Verdict.OPEN:
        assert looks_left(check, looks) == last - looks
        looks += 1
        (check,) = taken((check,), there, looks, 30)
    assert looks == last


def test_a_tenant_that_is_judged_longer_is_still_warming() -> None:
    here = _moved()
    while here.rollout.moves[0].looks < 2 * WINDOWS:
        assert not here.rollout.is_over, here.rollout.why
        here.tick()
    assert here.rollout.moves[0].state is MoveState.WARMING
