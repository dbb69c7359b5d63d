# SPDX-License-Identifier: Apache-2.0
"""Reads per missed page in the rules for changes: what others took, and how surely it is known."""

from dataclasses import replace

import pytest
from deciding import World

from cachepilot.decide.state import Interval
from cachepilot.domain.decisions import Event

SAVED = {"default": 0.5, "lru": 0.45}
"""A tenth of the misses is saved."""


def world(
    weight_error: float = 0.0, weight_of_others: float = 1.0, lru: float = SAVED["lru"]
) -> World:
    def seen_as(seen: Interval) -> Interval:
        return replace(seen, weight_error=weight_error, weight_of_others=weight_of_others)

    found = World({**SAVED, "lru": lru}, seen_as=seen_as)
    found.learn()
    return found


@pytest.mark.parametrize(("error", "begins"), [(0.0, True), (0.04, True), (0.06, False)])
def test_a_saving_within_the_error_of_weights_begins_and_confirms_nothing(
    error: float, begins: bool
) -> None:
    tried = world(error)
    decided = tried.run(300)
    assert any(one.event is Event.TRIAL for one in decided) == begins
    # Confirmation asks for more: it is checked at every interval.
    assert any(one.event is Event.KEPT for one in decided) == (error == 0.0)


@pytest.mark.parametrize(("weight", "begins"), [(1.0, True), (1.05, True), (1.15, False)])
def test_an_untried_policy_is_expected_to_need_as_many_reads_as_others(
    weight: float, begins: bool
) -> None:
    decided = world(weight_of_others=weight).run(300)
    assert any(one.event is Event.TRIAL for one in decided) == begins


def test_what_was_saved_in_a_few_seconds_has_a_larger_error() -> None:
    """Within seconds the mix of operations differs more from its mean than over a minute."""

    def waits(error: float) -> int:
        tried = world(error, lru=0.5)
        tried.told["lru"] = 0.35
        for interval in range(300):
            if any(one.event is Event.TRIAL for one in tried.run(1)):
                return interval
        raise AssertionError("never tried")

    at_once = waits(0.0)
    # A saving of three tenths is twice the error of 0.06 after 11 s, and that of 0.02 after 1 s.
    assert waits(0.02) == at_once < 3 and 7 < waits(0.06) < 14
