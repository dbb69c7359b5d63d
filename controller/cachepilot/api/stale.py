# SPDX-License-Identifier: Apache-2.0
"""What is shown of a node that is stale: what it was left with, and nothing that was measured."""

from cachepilot.api.shapes.detail import TenantDetail
from cachepilot.api.shapes.views import NodeView, TenantView

STATE = "stale"
"""Of an SLO about which nothing is known at present."""
UNKNOWN = dict.fromkeys(("hit_ratio", "throughput_ops", "latency_p99_us", "device_iops"))


def stale_node(view: NodeView, why: str) -> NodeView:
    """A node without readings of its device; `why` is its problem. Nothing counts as free."""
    free = dict.fromkeys(("free_bytes", "sure_free_bytes", "free_for_s", "free_confidence"), 0)
    known = {"stale": True, "device_iops": None, "problem": why}
    return view.model_copy(update={**known, **free})


def stale_tenant(view: TenantView, why: str) -> TenantView:
    """A tenant without readings: of no SLO it is known whether it is met."""
    unknown = {"measured": None, "met": None, "attainment": None, "why": why}
    unknown |= {"state": STATE, "verdict": STATE}
    slos = [slo.model_copy(update=unknown) for slo in view.slos]
    return view.model_copy(update={**UNKNOWN, "stale": True, "slos": slos})


def stale_detail(detail: TenantDetail, why: str) -> TenantDetail:
    """A tenant of which nothing is planned; `why` says so before all else."""
    told = "; ".join(filter(None, (why, detail.why)))
    tenant = stale_tenant(detail.tenant, why)
    return detail.model_copy(update={"tenant": tenant, "why": told, "prediction_error": None})
