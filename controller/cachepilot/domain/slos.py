# SPDX-License-Identifier: Apache-2.0
"""SLOs of tenants: how they stand now, and in how many windows they were met."""

from dataclasses import dataclass

GOAL = 0.98
"""The share of windows in which an SLO is to be met; what may be missed is its error budget."""
HOURS = 168
"""Hours of which windows are kept: a week."""
MINUTES = 60
"""Minutes of which windows are kept one by one: attainment is that of the last hour."""


@dataclass(frozen=True)
class SloMinute:
    """Windows of one minute of one SLO, and those in which it was met."""

    cgroup: str
    kind: str
    minute: int
    windows: int
    met: int


@dataclass(frozen=True)
class SloHour:
    """Windows of one hour of one SLO, and those in which it was met."""

    cgroup: str
    kind: str
    hour: int
    windows: int
    met: int


@dataclass(frozen=True)
class SloTarget:
    """A target, and since when it is that: windows before that were judged by another."""

    cgroup: str
    kind: str
    target: float
    since_s: float


@dataclass(frozen=True)
class SloTotal:
    """Windows of one SLO since it was first stated, as they are stored."""

    cgroup: str
    kind: str
    windows: int
    met: int


VERDICTS = {True: "met", False: "missed", None: "not measured"}
"""What is said of an SLO by what was measured last."""


@dataclass(frozen=True)
class SloStatus:
    """One SLO: target, what is measured, what is predicted, and how often it was met.

    Values are in the unit of `kind`: operations per second, microseconds, or a ratio.
    `met` is by `measured`, `state` by what is `predicted` of the plan. `attainment` is the share of
    the windows of the last hour in which it was met, since it has this target. Totals are of the
    windows since it was first stated; None where they are not counted.
    """

    kind: str
    target: float
    measured: float | None
    predicted: float | None
    attainable: float | None
    attainable_ops: float | None
    state: str
    met: bool | None
    attainment: float | None
    why: str
    windows_total: int | None = None
    windows_met_total: int | None = None

    @property
    def verdict(self) -> str:
        """`met`, `missed` or `not measured`: by what was measured last."""
        return VERDICTS[self.met]
