# SPDX-License-Identifier: Apache-2.0
"""The error budgets of SLOs, as JSON objects; all values are measured."""

from typing import Literal

from cachepilot.api.shapes.shape import Shape
from cachepilot.domain.past.budget import LONG_MINUTES, SHORT_MINUTES, BudgetState


class SpanView(Shape):
    """The budget over a span of time."""

    span: Literal["1h", "24h", "7d"]
    seconds: float
    """Less than the span where the target holds for less."""
    windows: int
    """Control intervals that were judged."""
    met: int
    attainment: float | None
    """The share of them in which the SLO was met."""
    budget_left: float | None
    """1: untouched, 0: used up, below 0: overspent."""


class BudgetView(Shape):
    """The error budget of one SLO. It starts again when the target changes."""

    node: str
    cgroup: str
    kind: str
    target: float
    goal: float
    """The share of windows in which the target is to be met."""
    since_s: float
    """Since when the target holds, the node's time in seconds since 1970."""
    measured: float | None
    met: bool | None
    source: Literal["measured"] = "measured"
    spans: list[SpanView]
    burn_short_s: float = SHORT_MINUTES * 60.0
    burn_short: float | None
    """By how many times faster than allowed it was missed, over the short window."""
    burn_long_s: float = LONG_MINUTES * 60.0
    burn_long: float | None
    state: BudgetState
    """`burning` where both burn rates are above 1, `exhausted` where nothing of 7 days is left."""
    why: str
