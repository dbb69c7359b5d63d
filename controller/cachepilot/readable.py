# SPDX-License-Identifier: Apache-2.0
"""Numbers, times and foreign texts in sentences, as people read them."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

DIGITS_MAX = 12


def number(value: float, digits: int = 3) -> str:
    """Whole, with its thousands apart, from 100 up; else with so many digits that count."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.{digits}g}"


def listed(texts: Sequence[str]) -> str:
    """Texts as `a`, `a and b`, or `a, b and c`."""
    *before, last = texts
    return f"{', '.join(before)} and {last}" if before else last


def moment(time_s: float) -> str:
    """Seconds since 1970 as `2026-11-01 12:00:00 UTC`."""
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(time_s: float) -> str:
    """The time of the day of seconds since 1970, as `03:15 UTC`."""
    return f"{datetime.fromtimestamp(time_s, UTC):%H:%M} UTC"


def printable(text: str) -> str:
    """Text in which what a terminal or a log would obey is written as an escape."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(one: str) -> str:
    return one if one.isprintable() else ascii(one)[1:-1]


def apart(
    values: Sequence[float | None], text: Callable[[float], str], finer: Callable[[float, int], str]
) -> list[str | None]:
    """Texts of values that stand beside the first: none looks like it that is another one.

    By `text` where that tells them from it; else all by `finer(value, digits)`, with as few digits
    after the point as it takes, DIGITS_MAX at most. None stays None.
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
    """`number` of each, with more digits where one would look like the first and is another."""
    return apart(values, lambda one: number(one, digits), lambda one, more: f"{one:,.{more}f}")
