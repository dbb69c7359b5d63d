# SPDX-License-Identifier: Apache-2.0
"""The autopilot's effect on tenants, as JSON objects; each value is measured or predicted."""

from cachepilot.api.shapes.shape import Shape
from cachepilot.domain.past.comparison import Source, Verdict


class MeasuredView(Shape):
    """Means from `since_s` to `until_s`, of the node's time in seconds since 1970."""

    source: Source
    throughput_ops: float
    miss_ratio: float | None
    policy: str
    limit_bytes: int
    since_s: float
    until_s: float


class PredictedView(Shape):
    """What the model gives for a setting; by its errors at least `low_ops`, at most `high_ops`."""

    source: Source
    throughput_ops: float
    low_ops: float
    high_ops: float
    miss_ratio: float
    policy: str
    limit_bytes: int


class RatioView(Shape):
    """Throughput now over another one, and the range of its error: 1.25 is a quarter more."""

    ratio: float
    low: float
    high: float
    source: Source
    """`predicted` if either of the two values is."""
    tenants: int
    """Number of tenants; for several, the ratio is their weighted geometric mean."""


class TenantComparisonView(Shape):
    """One tenant; null is not known, and `why` says what is missing."""

    node: str
    cgroup: str
    weight: float
    has_slo: bool
    now: MeasuredView | None
    default: PredictedView | None
    """The kernel's default at the first memory of the tenant."""
    before: MeasuredView | None
    """When the tenant was first seen, before any change."""
    versus_default: RatioView | None
    versus_before: RatioView | None
    verdict: Verdict
    """From `versus_default`: whether its range is above 1, below 1, or includes 1."""
    why: str


class SumView(Shape):
    """How many tenants gain and pay, and weighted geometric means over those that are known."""

    node: str
    """"" for all nodes."""
    tenants: int
    gain: int
    pay: int
    same: int
    unknown: int
    versus_default: RatioView | None
    versus_before: RatioView | None


class Comparison(Shape):
    """Whether it helps, and who pays for it: of those the ten most."""

    fleet: SumView
    nodes: list[SumView]
    gains: list[TenantComparisonView]
    pays: list[TenantComparisonView]
