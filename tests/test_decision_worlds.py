# SPDX-License-Identifier: Apache-2.0
"""The experiment that counts changes without merit: what it plays and how it counts."""

import numpy as np
import pytest
from experiments.control_loop.sampling import GROUPS, Sampling
from experiments.decision_worlds import counts, flips, paired
from experiments.decision_worlds.interruptions import Interruptions
from experiments.decision_worlds.nodes import TENANTS, Course, Node, play
from experiments.decision_worlds.tenants import (
    CORRELATED,
    FIXED,
    POLICIES,
    WHITE,
    Drawn,
    Effect,
    Kind,
    regime,
)

from cachepilot.domain.decisions import Event
from cachepilot.sense.counterfactuals import DEFAULT

GAIN = Kind("gain", (regime(sieve=Effect(-0.05, -0.05)),), kept=None)


def course(policies: str, last: str, kind: Kind = GAIN) -> Course:
    """Return a run of policies, each given by its first letter."""
    names = {name[0]: name for name in (DEFAULT, *POLICIES)}
    return Course(kind, [names[one] for one in policies], names[last])


@pytest.mark.parametrize(("kept", "lasts"), [(WHITE, 0.0), (CORRELATED, CORRELATED), (FIXED, 1.0)])
def test_sampling_errors_have_the_size_and_duration_that_was_asked(
    kept: float, lasts: float
) -> None:
    expected = np.full((200, GROUPS), 400.0)
    samplings = Sampling(seed=1, rate=0.1, kept=kept)
    found = np.array([samplings.sampled(expected) for _ in range(20)])
    assert found.mean() == pytest.approx(400, rel=0.01)
    # At a rate of 0.1 a count of 40 scatters by its root, and the estimate is ten times the count.
    assert found[5].std() == pytest.approx(10 * 40**0.5, rel=0.05)
    now, then = found[1:].ravel(), found[:-1].ravel()
    assert np.corrcoef(now, then)[0, 1] == pytest.approx(lasts, abs=0.05)


def test_tenants_are_drawn_alike_for_a_seed_and_within_what_is_told_of_them() -> None:
    drawn = [Drawn.of(seed) for seed in range(200)]
    assert drawn == [Drawn.of(seed) for seed in range(200)]
    assert len(set(drawn)) == 200
    for one in drawn:
        assert 16 <= one.pages * 4096 / (1 << 20) <= 256 and 0 < one.rate <= 1


def test_the_best_policy_follows_the_regime() -> None:
    kind = flips.flipping(30, True)
    assert [kind.best(at) for at in (0, 29, 30, 60)] == ["lirs", "lirs", "wtinylfu", "lirs"]
    assert Kind("alike").best(0) == DEFAULT


@pytest.fixture(scope="module")
def undisturbed() -> list[Course]:
    return play(Node(1, (GAIN, Kind("alike", kept=None)), 90))


def test_only_gaining_tenants_change_their_policy(undisturbed: list[Course]) -> None:
    gaining, alike = undisturbed[::2], undisturbed[1::2]
    assert all(one.changes == 0 and one.loss_pct == 0 for one in alike)
    assert all(one.seconds == 90 for one in undisturbed)
    changed = [one for one in gaining if one.last == "sieve"]
    assert len(changed) > len(gaining) / 2
    for one in changed:
        assert one.changes == one.changes_away == len(one.told(Event.TRIAL)) == 1
        assert one.default_done < one.best_done and one.done < one.best_done


def test_a_node_is_played_the_same_twice(undisturbed: list[Course]) -> None:
    again = play(Node(1, (GAIN, Kind("alike", kept=None)), 90))
    assert [(one.policies, one.done) for one in again] == [
        (one.policies, one.done) for one in undisturbed
    ]


def silences(seed: int) -> list[int]:
    """Return the intervals without a snapshot, out of 600."""
    gaps, found = Interruptions("gaps", seed), []
    for interval in range(600):
        gaps.begin(None, interval)  # type: ignore[arg-type]
        found += [interval] * gaps.is_silent(interval)
    return found


def test_gaps_come_at_random_times_that_a_seed_repeats() -> None:
    found = [silences(seed) for seed in range(20)]
    assert found == [silences(seed) for seed in range(20)]
    assert 0.15 < np.mean([len(one) for one in found]) / 600 < 0.5
    assert len({tuple(one) for one in found}) == 20


@pytest.mark.parametrize(
    "name",
    ["gaps", "clock_forward", "clock_back", "agent_restarts", "controller_restarts", "load_steps"],
)
def test_every_interruption_can_be_played(name: str) -> None:
    node = Node(2, (Kind("alike", kept=None), flips.flipping(30, True, None)), 70, name)
    assert [one.seconds for one in play(node)] == [70] * TENANTS


def test_changes_are_counted_by_what_is_in_force() -> None:
    one = course("ddssdd", "l")
    assert (one.changes, one.changes_away) == (3, 2)
    assert course("dddd", "d").changes == 0


def test_waits_are_counted_after_the_first_round() -> None:
    kind = flips.flipping(4, True)
    assert flips.waits(course("dddddddd" + "wwll" + "llll", "w", kind)) == [2, 4]


def test_changes_more_and_fewer_are_kept_apart() -> None:
    more, same, fewer = course("dsd", "d"), course("ddd", "d"), course("dds", "s")
    assert paired.more([more, same, same], [same, same, fewer]) == (2, 1)


def test_rows_are_exact_counts() -> None:
    runs = [[course("ddss", "s"), course("dddd", "d")], [course("dddd", "d")] * 2]
    found = counts.share("m", runs, lambda one: one.last != DEFAULT, 1.0)
    assert (found.value, found.reference_value, found.spread) == (25.0, 1, (0.0, 50.0))
    told = counts.rate("m", runs, lambda one: one.changes_away, "changes")
    assert told.value == pytest.approx(1000 / (16 / 3600))
    worst, middle = counts.worst_and_median("m", [1.0, 2.0, 6.0], "%", goal=2.0)
    assert (worst.value, middle.value, worst.goal) == (6.0, 2.0, 2.0)
