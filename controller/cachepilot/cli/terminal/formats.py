# SPDX-License-Identifier: Apache-2.0
"""Formats and parsers for numbers and sizes of tenants."""

import math
import re
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from cachepilot.api.shapes.views import RecommendationView, SloView
from cachepilot.errors import InputError
from cachepilot.readable import apart
from cachepilot.sizes import PAGE_BYTES, human_bytes, pages_down, parse_size

UNKNOWN = "-"
BARE = re.compile(r"[\d.]+", re.ASCII)
"""A number without a unit."""
PREDICTED = {
    "met": "predicted to be met",
    "approaching": "predicted to be met once memory has moved",
    "outbid": "predicted to be missed, other SLOs come first",
    "held": "predicted to be missed at a fixed setting",
    "unattainable": "predicted to be unattainable",
    "unknown": "not predicted",
}
SHORT = {
    "met": "to be met",
    "approaching": "to be met later",
    "outbid": "to be missed",
    "held": "to be missed",
}
T = TypeVar("T")


def limit(amount_bytes: int | None) -> str:
    """Return a limit as text; 0 means no limit."""
    return human_bytes(amount_bytes) if amount_bytes else "none"


def limit_or_unknown(amount_bytes: int | None) -> str:
    """Return a size as text; None is unknown."""
    return UNKNOWN if amount_bytes is None else human_bytes(amount_bytes)


def floor(floor_bytes: int, least_limit_bytes: int | None) -> str:
    """Return a tenant's floor, and which part of it a pinned limit may not be below."""
    told = f"floor {human_bytes(floor_bytes)}"
    if least_limit_bytes is None:
        return told
    if floor_bytes <= least_limit_bytes:
        return f"{told} (what cannot be reclaimed, and a margin)"
    return f"{told} (protected; a pin may go down to {human_bytes(least_limit_bytes)})"


def count(value: float | None) -> str:
    """Return a rate or a number without unit: `5,240`, `12.5`."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.3g}"


def share(value: float | None, digits: int = 1) -> str:
    """Return a share between 0 and 1 in percent."""
    return UNKNOWN if value is None else f"{value:.{digits}%}"


def short_state(state: str) -> str:
    """Return what a plan predicts of an SLO, for a column that is headed `SLO predicted`."""
    return SHORT.get(state, state)


def predicted_state(state: str) -> str:
    """Return what a plan predicts of an SLO in words; as it is if it is no such state."""
    return PREDICTED.get(state, state)


def prediction(slo: SloView) -> str:
    """Return what is predicted of an SLO in words, or was before confidence was lost."""
    told = predicted_state(slo.state)
    return f"last {told}" if is_earlier(slo) else told


def is_earlier(slo: SloView) -> bool:
    """Whether what is predicted of an SLO is the last prediction, since there is none now."""
    return slo.state == "unattainable" and slo.predicted is None


def recommendation(one: RecommendationView) -> str:
    """Return a recommendation with its bounds, its predicted effect, and its confidence."""
    bounds = f"{human_bytes(one.lower_bytes)} to {human_bytes(one.upper_bytes)}"
    low, high = count(one.throughput_low_ops), count(one.throughput_high_ops)
    text = (
        f"{one.policy} with {human_bytes(one.limit_bytes)} ({bounds}): predicted "
        f"{count(one.throughput_ops)} ops/s (95% of intervals {low} to {high}), "
        f"as it is {count(one.present_ops)}"
    )
    if one.confidence is not None:
        # Rounding a probability up to 100% would claim more than is known.
        sure = math.floor(1000 * min(one.confidence, 0.999)) / 1000
        text += f"; {share(sure)} sure of at least {count(one.at_least_ops)} in an interval"
    return text


def duration(seconds: float) -> str:
    """Return `4 s`, `3 min`, `5 h` or `2 d`."""
    for unit, scale in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * scale:
            return f"{seconds / scale:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def slo_value(kind: str, value: float | None) -> str:
    """Return a value in the unit of its SLO."""
    if value is None:
        return UNKNOWN
    unit = {"throughput_ops": " ops/s", "latency_p99_us": " us"}.get(kind)
    return share(value) if unit is None else f"{count(value)}{unit}"


def _exact(kind: str, value: float, digits: int) -> str:
    if kind == "hit_ratio":
        return f"{value:.{digits + 1}%}"
    return f"{value:,.{digits}f}{' us' if kind == 'latency_p99_us' else ' ops/s'}"


def slo_values(kind: str, *values: float | None) -> list[str]:
    """Return values in the unit of their SLO; the first is the target.

    A value close to the target has as many digits as are needed to see the difference.
    """
    found = apart(values, partial(slo_value, kind), partial(_exact, kind))
    return [UNKNOWN if one is None else one for one in found]


def parse_bytes(option: str, text: str, of_bytes: int | None = None) -> int:
    """Return a size with a unit in bytes, rounded to whole pages; a share refers to `of_bytes`.

    Raises InputError naming the option and the allowed forms. A number without a unit is refused,
    because it could mean bytes, pages or MiB. A share is refused without `of_bytes`.
    """
    allowed = "bytes like 64MiB, pages like 16384pages" + (
        "" if of_bytes is None else ", or a share of the node's memory capacity like 5%"
    )
    if BARE.fullmatch(text.strip()):
        raise InputError(f"{option} {text}: a size needs a unit (allowed: {allowed})")
    try:
        size = parse_size(text, allowed)
    except InputError as error:
        raise InputError(f"{option}: {error}") from None
    if size.pages is not None:
        return size.pages * PAGE_BYTES
    if size.share is None or of_bytes is None:
        raise InputError(f"{option} {text}: a share is of no use here (allowed: {allowed})")
    return max(PAGE_BYTES, pages_down(int(size.share * of_bytes)))


def parse_rate(option: str, text: str) -> float:
    """Return operations per second, above 0; InputError names the option."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1e12:
        raise InputError(f"{option} {text}: not a rate (allowed: above 0 to 1e12 a second)")
    return value


def parse_pairs(
    option: str, texts: list[str] | None, read: Callable[[str, str], T]
) -> dict[str, T]:
    """Parse CGROUP=VALUE texts, each cgroup once, with `read(option, text)` for the values."""
    pairs: dict[str, T] = {}
    for text in texts or []:
        cgroup, equals, value = text.rpartition("=")
        if not (cgroup and equals and value):
            raise InputError(f"{option} {text}: not a pair (allowed: CGROUP=VALUE)")
        if cgroup in pairs:
            raise InputError(f"{option} {text}: {cgroup} is there twice (allowed: each once)")
        pairs[cgroup] = read(option, value)
    return pairs
