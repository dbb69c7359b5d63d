# SPDX-License-Identifier: Apache-2.0
"""The parts of OpenSLO v1 documents of kind SLO and SLI that are read.

Keys without a meaning for objectives (time windows, alerts, display names) are ignored.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

API_VERSION = "openslo/v1"
KINDS = (
    *("SLO", "SLI", "Service", "DataSource"),
    *("AlertPolicy", "AlertCondition", "AlertNotificationTarget"),
)
PREFIX = "cachepilot/"
"""Prefix of annotations with values for which OpenSLO has no key."""
METRICS = {
    "throughput_ops": "cachepilot_tenant_operations_per_second",
    "latency_p99_us": "cachepilot_tenant_read_latency_p99_seconds",
    "hit_ratio": "cachepilot_tenant_hit_ratio",
}
"""The controller's metric for each kind of SLO."""
PER_METRIC_UNIT = {"latency_p99_us": 1e6}
"""How many units of the objective are in one unit of the metric; 1 for kinds not listed."""


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class MetricSourceSpec(_Read):
    """The Prometheus query."""

    query: str


class MetricSource(_Read):
    """The source of the value."""

    spec: MetricSourceSpec


class Metric(_Read):
    """The value that is compared."""

    metric_source: MetricSource = Field(alias="metricSource")


class IndicatorSpec(_Read):
    """An SLI; only a value compared with a threshold can be an objective here."""

    threshold_metric: Metric = Field(alias="thresholdMetric")


class Metadata(_Read):
    """A name, and annotations of implementations."""

    name: str
    annotations: dict[str, str] = {}


class InlineIndicator(_Read):
    """An SLI inside an SLO."""

    spec: IndicatorSpec


class Threshold(_Read):
    """The value to compare with; `target` is the share of windows in which the SLO must be met."""

    op: Literal["gte", "gt", "lte", "lt"]
    value: float
    target: float | None = None
    target_percent: float | None = Field(default=None, alias="targetPercent")


class SloSpec(_Read):
    """One indicator, inline or by name, and one threshold."""

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
