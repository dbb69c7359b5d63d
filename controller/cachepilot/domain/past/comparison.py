# SPDX-License-Identifier: Apache-2.0
"""The effect of the autopilot on a tenant: measured now, compared with the default and with before.

Every value says whether it was measured or predicted.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """The source of a number."""

    MEASURED = "measured"
    PREDICTED = "predicted"


class Verdict(StrEnum):
    """Whether the range of the ratio to the default is above 1, below 1, or includes 1."""

    GAINS = "gains"
    PAYS = "pays"
    SAME = "same"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class MeasuredReading:
    """Means over [since_s, until_s] of the node's time."""

    throughput_ops: float
    miss_ratio: float | None
    policy: str
    limit_bytes: int
    since_s: float
    until_s: float
    source: Source = Source.MEASURED


@dataclass(frozen=True)
class PredictedReading:
    """The model's prediction for a setting; the throughput is in [low_ops, high_ops].

    The source is measured if the tenant has that setting now, and what other tenants have instead
    of theirs does not change its throughput.
    """

    throughput_ops: float
    low_ops: float
    high_ops: float
    miss_ratio: float
    policy: str
    limit_bytes: int
    source: Source = Source.PREDICTED


@dataclass(frozen=True)
class Ratio:
    """The present throughput divided by another one: 1.25 is a quarter more.

    `low` to `high` is the error. For several tenants it is the weighted geometric mean. The source
    is predicted if either throughput is.
    """

    ratio: float
    low: float
    high: float
    source: Source
    tenants: int = 1

    @property
    def verdict(self) -> Verdict:
        """Whether it is a gain or a loss beyond its error."""
        if self.low > 1:
            return Verdict.GAINS
        return Verdict.PAYS if self.high < 1 else Verdict.SAME


@dataclass(frozen=True)
class TenantComparison:
    """One tenant; a value that is not known is None, and `why` says what is missing."""

    node: str
    cgroup: str
    weight: float
    has_slo: bool
    now: MeasuredReading | None
    default: PredictedReading | None
    before: MeasuredReading | None
    versus_default: Ratio | None
    versus_before: Ratio | None
    why: str

    @property
    def verdict(self) -> Verdict:
        """The verdict by the ratio to the default."""
        return Verdict.UNKNOWN if self.versus_default is None else self.versus_default.verdict


@dataclass(frozen=True)
class Sum:
    """Counts and mean ratios of the tenants of a node, or of all nodes if `node` is empty.

    `gain`, `pay`, `same` and `unknown` count the tenants with each verdict.
    """

    node: str
    tenants: int
    gain: int
    pay: int
    same: int
    unknown: int
    versus_default: Ratio | None
    versus_before: Ratio | None


def mean_ratio(weighed: Iterable[tuple[float, Ratio]]) -> Ratio | None:
    """The weighted geometric mean of ratios; None if none has a weight.

    Its error assumes that all ratios are wrong in the same direction, so it is an upper bound.
    """
    known = [(weight, one) for weight, one in weighed if weight > 0 and one.low > 0]
    total = sum(weight for weight, _ in known)
    if total <= 0:
        return None

    def mean(name: str) -> float:
        return math.exp(sum(w * math.log(getattr(one, name)) for w, one in known) / total)

    predicted = any(one.source is Source.PREDICTED for _, one in known)
    source = Source.PREDICTED if predicted else Source.MEASURED
    return Ratio(mean("ratio"), mean("low"), mean("high"), source, len(known))


def summed(node: str, tenants: Iterable[TenantComparison]) -> Sum:
    """Count and average the comparisons of tenants."""
    known = list(tenants)
    verdicts = [one.verdict for one in known]
    return Sum(
        node,
        len(known),
        verdicts.count(Verdict.GAINS),
        verdicts.count(Verdict.PAYS),
        verdicts.count(Verdict.SAME),
        verdicts.count(Verdict.UNKNOWN),
        mean_ratio((one.weight, one.versus_default) for one in known if one.versus_default),
        mean_ratio((one.weight, one.versus_before) for one in known if one.versus_before),
    )
