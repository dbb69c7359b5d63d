# SPDX-License-Identifier: Apache-2.0
"""All details of one tenant, as a JSON object.

Separate from `views`, because it imports the shapes of objectives, which a table of tenants does
not need.
"""

from pydantic import Field

from cachepilot.api.shapes.objectives import ObjectiveShape
from cachepilot.api.shapes.shape import View
from cachepilot.api.shapes.views import TenantView


class CurvesView(View):
    """Miss ratio curves: a row of `miss_ratio` and `error_bar` per policy, an entry per size.

    Sizes are limits: what is not page cache is paid from them too.
    """

    policies: list[str]
    sizes_bytes: list[int]
    miss_ratio: list[list[float]]
    error_bar: list[list[float]]
    sampled: int
    rate: float


class DemandView(View):
    """The fitted throughput model.

    `error_pct` is how far the model was off in recent intervals: the mean difference between the
    throughput that it predicts from the measured miss ratio and the measured throughput, in percent
    of the latter, without sign. `prediction_error` of the tenant also contains the error of the
    predicted miss ratio.
    """

    service_us: float
    accesses_per_op: float
    concurrency: float
    error_pct: float | None


class PolicyView(View):
    """One policy at the limit that a tenant has; what `note` says is read off the order."""

    policy: str
    miss_ratio: float
    """Predicted."""
    error_bar: float
    allowed: bool
    """Whether the tenant's objectives and pins allow the policy."""
    note: str
    """`in use`; `best`: the lowest miss ratio of all; `best allowed`: the lowest of those
    allowed."""


class TenantDetail(View):
    """All that is known of one tenant, and why it has what it has."""

    tenant: TenantView
    curves: CurvesView | None
    demand: DemandView | None
    predicted_miss_ratio: float | None
    """At the present policy and size, by the curves."""
    predicted_ops: float | None
    best_policy: str | None
    """The allowed policy with the lowest miss ratio at the present size."""
    why: str
    needed_for_slo_bytes: int | None
    """The least memory that meets every SLO under `needed_policy`. Null if no memory of the node
    does, if there is no SLO, or if an SLO has no prediction: its state is then `unknown`."""
    read_latency_total: list[int]
    needed_policy: str | None = None
    policies: list[PolicyView] = Field(default=[])
    """Every policy with a curve at the present limit, the lowest miss ratio first."""
    prediction_error: float | None = None
    """`predicted_ops` over the measured value, minus 1; None if either is unknown."""
    stated: ObjectiveShape | None = None
    """The objective in force for the tenant, by its path or by a glob; None if none matches."""
    inherited: ObjectiveShape | None = None
    """The objective that would apply without one for exactly its path."""
