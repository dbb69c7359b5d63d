# SPDX-License-Identifier: Apache-2.0
"""The error budgets of SLOs, as JSON objects; all values are measured."""

from typing import Literal

from cachepilot.api.shapes.shape import Shape
from cachepilot.domain.past.budget import LONG_MINUTES, SHORT_MINUTES, BudgetState


class SpanView(Shape):
    """The budget over a span of time."""

    span: Literal["1h", "24h", "7d"]
    seconds: float
    """Shorter than the span if the target has been in force for a shorter time."""
    windows: int
    """Number of control intervals in which the SLO was judged."""
    met: int
    attainment: float | None
    """The share of these intervals in which the SLO was met."""
    budget_left: float | None
    """1: unused, 0: used up, below 0: overspent."""


class BudgetView(Shape):
    """The error budget of one SLO. It starts again when the target changes."""

    node: str
    cgroup: str
    kind: str
    target: float
    goal: float
    """The share of windows in which the target is to be met."""
    since_s: float
    """Since when the target is in force, by the node's clock in seconds since 1970."""
    measured: float | None
    met: bool | None
    source: Literal["measured"] = "measured"
    spans: list[SpanView]
    burn_short_s: float = SHORT_MINUTES * 60.0
    burn_short: float | None
    """How many times faster than allowed the budget was used, over the short window."""
    burn_long_s: float = LONG_MINUTES * 60.0
    burn_long: float | None
    state: BudgetState
    """`burning` if both burn rates are above 1; `exhausted` if the budget of 7 days is used up."""
    why: str
