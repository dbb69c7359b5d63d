# SPDX-License-Identifier: Apache-2.0
"""Formats numbers, times and texts of unknown origin for people to read."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

DIGITS_MAX = 12


def number(value: float, digits: int = 3) -> str:
    """Return a whole number with thousands separators from 100 up, else with `digits` digits.

    The digits count from the first that is not zero.
    """
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.{digits}g}"


def listed(texts: Sequence[str]) -> str:
    """Return texts as `a`, `a and b`, or `a, b and c`."""
    *before, last = texts
    return f"{', '.join(before)} and {last}" if before else last


def moment(time_s: float) -> str:
    """Return seconds since 1970 as `2026-11-01 12:00:00 UTC`."""
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(time_s: float) -> str:
    """Return the time of day of seconds since 1970, as `03:15 UTC`."""
    return f"{datetime.fromtimestamp(time_s, UTC):%H:%M} UTC"


def printable(text: str) -> str:
    """Return the text with every character escaped that a terminal or a log would interpret."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(one: str) -> str:
    return one if one.isprintable() else ascii(one)[1:-1]


def apart(
    values: Sequence[float | None], text: Callable[[float], str], finer: Callable[[float, int], str]
) -> list[str | None]:
    """Return texts of values such that none that differs from the first value has its text.

    `text` is used if it distinguishes the values from the first. Otherwise all texts come from
    `finer(value, digits)` with the fewest digits after the point that distinguish them, DIGITS_MAX
    at most. None stays None.
    """
    first = values[0]

    def shown(with_text: Callable[[float], str]) -> tuple[bool, list[str | None]]:
        texts = [None if one is None else with_text(one) for one in values]
        told = zip(values, texts, strict=True)
        return not any(one != first and shown == texts[0] for one, shown in told), texts

    is_fine, texts = shown(text)
    for digits in range(1, DIGITS_MAX + 1):
        if is_fine:
            break
        is_fine, texts = shown(lambda value, digits=digits: finer(value, digits))  # type: ignore[misc]
    return texts


def numbers(values: Sequence[float | None], digits: int = 3) -> list[str | None]:
    """Return `number` of each value, with more digits if necessary.

    More digits are used if a different value would otherwise have the text of the first.
    """
    return apart(values, lambda one: number(one, digits), lambda one, more: f"{one:,.{more}f}")
