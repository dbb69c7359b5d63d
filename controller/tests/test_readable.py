# SPDX-License-Identifier: Apache-2.0
"""Numbers in the reasons of decisions."""

import pytest

from cachepilot.readable import number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (13130.4, "13,130"), (1e6, "1,000,000"), (99.96, "100"), (42.26, "42.3"), (0.5, "0.5"),
        (0.0, "0"), (-2213.0, "-2,213"), (1.9e-4, "0.00019"),
    ],
)  # fmt: skip
def test_numbers_are_read_without_powers_of_ten(value: float, text: str) -> None:
    assert number(value) == text


def test_a_ratio_may_ask_for_more_digits() -> None:
    assert number(0.99951, 6) == "0.99951"
