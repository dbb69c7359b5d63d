# SPDX-License-Identifier: Apache-2.0
"""SLOs of tenants: their present status, and in how many windows they were met."""

from dataclasses import dataclass

GOAL = 0.98
"""The share of windows in which an SLO is to be met; the rest is its error budget."""
HOURS = 168
"""The number of hours for which windows are stored: a week."""
MINUTES = 60
"""The number of minutes for which windows are stored one by one: attainment covers an hour."""


@dataclass(frozen=True)
class SloMinute:
    """The windows of one SLO in one minute, and those in which it was met."""

    cgroup: str
    kind: str
    minute: int
    windows: int
    met: int


@dataclass(frozen=True)
class SloHour:
    """The windows of one SLO in one hour, and those in which it was met."""

    cgroup: str
    kind: str
    hour: int
    windows: int
    met: int


@dataclass(frozen=True)
class SloTarget:
    """A target, and the time since when it applies; earlier windows had another target."""

    cgroup: str
    kind: str
    target: float
    since_s: float


@dataclass(frozen=True)
class SloTotal:
    """The windows of one SLO since it was first stated, as they are stored."""

    cgroup: str
    kind: str
    windows: int
    met: int


VERDICTS = {True: "met", False: "missed", None: "not measured"}
"""The words for an SLO by its last measurement."""


@dataclass(frozen=True)
class SloStatus:
    """One SLO: its target, the measured and predicted values, and how often it was met.

    Values are in the unit of `kind`: operations per second, microseconds, or a ratio. `met` follows
    from `measured`, `state` from what the plan is `predicted` to reach. `attainment` is the share
    of windows of the last hour in which the SLO was met, since it has this target. Totals count the
    windows since it was first stated; None if they are not counted.
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
        """`met`, `missed` or `not measured`, by the last measurement."""
        return VERDICTS[self.met]
