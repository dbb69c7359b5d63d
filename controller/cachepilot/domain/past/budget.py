# SPDX-License-Identifier: Apache-2.0
"""The error budget of an SLO: how many windows may miss it, and how fast they use that up.

A burn rate is the share of windows that missed the SLO, divided by the share that may. At 1 the
budget is used up exactly. An SLO is burning if both a short and a long window say so (Beyer et al.,
The Site Reliability Workbook, 2018, chapter 5).
"""

from dataclasses import dataclass
from enum import StrEnum

from cachepilot.domain.slos import GOAL
from cachepilot.readable import number

SHORT_MINUTES, LONG_MINUTES = 5, 60
SPANS_S = {"1h": 3600.0, "24h": 86_400.0, "7d": 604_800.0}


class BudgetState(StrEnum):
    """The state of the error budget of an SLO."""

    SAFE = "safe"
    BURNING = "burning"
    EXHAUSTED = "exhausted"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Counted:
    """Windows that were judged, and those in which the SLO was met."""

    windows: int
    met: int

    @property
    def attainment(self) -> float | None:
        """The share of windows in which the SLO was met; None without windows."""
        return self.met / self.windows if self.windows else None

    @property
    def burn(self) -> float | None:
        """The burn rate; None without windows."""
        share = self.attainment
        return None if share is None else (1 - share) / (1 - GOAL)


@dataclass(frozen=True)
class SpanBudget:
    """The error budget of a span, or of the `seconds` of it in which the target applied."""

    span: str
    seconds: float
    windows: int
    met: int
    attainment: float | None
    budget_left: float | None


@dataclass(frozen=True)
class Budget:
    """The error budget of one SLO; all of it is measured."""

    node: str
    cgroup: str
    kind: str
    target: float
    since_s: float
    measured: float | None
    met: bool | None
    spans: tuple[SpanBudget, ...]
    burn_short: float | None
    burn_long: float | None
    goal: float = GOAL

    @property
    def state(self) -> BudgetState:
        """The state, by what is left of the longest span, and by both burn rates."""
        left = self.spans[-1].budget_left
        if left is None:
            return BudgetState.UNKNOWN
        if left <= 0:
            return BudgetState.EXHAUSTED
        fast = min(self.burn_short or 0.0, self.burn_long or 0.0) > 1
        return BudgetState.BURNING if fast else BudgetState.SAFE

    @property
    def why(self) -> str:
        """The state in one sentence."""
        last = self.spans[-1]
        if last.attainment is None or last.budget_left is None:
            return "no window was judged yet"
        missed = last.windows - last.met
        may = number(100 * (1 - self.goal))
        told = f"missed in {missed:,} of {last.windows:,} windows, where {may}% may miss it"
        if self.state is BudgetState.BURNING and self.burn_short is not None:
            told += f"; now {number(self.burn_short)} times as fast as that"
        return told


def span_budget(span: str, seconds: float, counted: Counted) -> SpanBudget:
    """The share of a span's budget that is left: 1 untouched, 0 used up, below 0 overspent."""
    burn = counted.burn
    left = None if burn is None else 1 - burn
    return SpanBudget(span, seconds, counted.windows, counted.met, counted.attainment, left)
