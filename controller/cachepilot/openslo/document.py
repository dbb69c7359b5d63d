# SPDX-License-Identifier: Apache-2.0
"""What is read of an OpenSLO v1 document of kind SLO or SLI.

Keys that say nothing to an objective (time windows, alerts, display names) are passed over.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

API_VERSION = "openslo/v1"
KINDS = (
    *("SLO", "SLI", "Service", "DataSource"),
    *("AlertPolicy", "AlertCondition", "AlertNotificationTarget"),
)
PREFIX = "cachepilot/"
"""Of the annotations that hold what OpenSLO has no key for."""
METRICS = {
    "throughput_ops": "cachepilot_tenant_operations_per_second",
    "latency_p99_us": "cachepilot_tenant_read_latency_p99_seconds",
    "hit_ratio": "cachepilot_tenant_hit_ratio",
}
"""The metric of the controller behind each kind of SLO."""
PER_METRIC_UNIT = {"latency_p99_us": 1e6}
"""Of the objective's unit, how many there are in one of the metric's."""


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class MetricSourceSpec(_Read):
    """The query, for Prometheus."""

    query: str


class MetricSource(_Read):
    """Where the value comes from."""

    spec: MetricSourceSpec


class Metric(_Read):
    """A value to be compared."""

    metric_source: MetricSource = Field(alias="metricSource")


class IndicatorSpec(_Read):
    """An SLI; only one that is a value under a threshold can be an objective here."""

    threshold_metric: Metric = Field(alias="thresholdMetric")


class Metadata(_Read):
    """A name, and what an implementation keeps beside it."""

    name: str
    annotations: dict[str, str] = {}


class InlineIndicator(_Read):
    """An SLI inside an SLO."""

    spec: IndicatorSpec


class Threshold(_Read):
    """What the value is compared with; `target` is the share of time in which it holds."""

    op: Literal["gte", "gt", "lte", "lt"]
    value: float
    target: float | None = None
    target_percent: float | None = Field(default=None, alias="targetPercent")


class SloSpec(_Read):
    """One indicator, in the document or by name, and its thresholds."""

    indicator: InlineIndicator | None = None
    indicator_ref: str | None = Field(default=None, alias="indicatorRef")
    objectives: list[Threshold] = Field(min_length=1, max_length=1)


class Slo(_Read):
    """A document of kind SLO."""

    metadata: Metadata
    spec: SloSpec


class Sli(_Read):
    """A document of kind SLI."""

    metadata: Metadata
    spec: IndicatorSpec
