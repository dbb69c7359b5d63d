# SPDX-License-Identifier: Apache-2.0
"""The settings of the decider are refused out of their ranges, by name."""

from dataclasses import fields, replace

import pytest

from cachepilot.decide.config import RANGES, DecideConfig
from cachepilot.errors import InputError

CONFIG = DecideConfig()


@pytest.mark.parametrize("name", RANGES)
def test_settings_out_of_range_are_refused_by_name(name: str) -> None:
    low, high = RANGES[name]
    for value in (low, high):
        assert getattr(replace(CONFIG, **{name: value}), name) == value
    for wrong in (low - 0.001, high + 0.001, float("nan")):
        with pytest.raises(InputError, match=rf"^decide: {name}: .*allowed: {low:g} to {high:g}"):
            replace(CONFIG, **{name: wrong})


def test_every_setting_has_a_range() -> None:
    assert {field.name for field in fields(DecideConfig)} == set(RANGES)
