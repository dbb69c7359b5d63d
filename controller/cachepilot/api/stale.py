# SPDX-License-Identifier: Apache-2.0
"""Views of a stale node: its settings, but no measurements."""

from cachepilot.api.shapes.detail import TenantDetail
from cachepilot.api.shapes.views import NodeView, TenantView

STATE = "stale"
"""The state of an SLO about which nothing is known at present."""
UNKNOWN = dict.fromkeys(("hit_ratio", "throughput_ops", "latency_p99_us", "device_iops"))


def stale_node(view: NodeView, why: str) -> NodeView:
    """Return a node's view without readings of its device and without free memory.

    `why` is shown as its problem.
    """
    free = dict.fromkeys(("free_bytes", "sure_free_bytes", "free_for_s", "free_confidence"), 0)
    known = {"stale": True, "device_iops": None, "problem": why}
    return view.model_copy(update={**known, **free})


def stale_tenant(view: TenantView, why: str) -> TenantView:
    """Return a tenant's view without readings; for no SLO it is known whether it is met."""
    unknown = {"measured": None, "met": None, "attainment": None, "why": why}
    unknown |= {"state": STATE, "verdict": STATE}
    slos = [slo.model_copy(update=unknown) for slo in view.slos]
    return view.model_copy(update={**UNKNOWN, "stale": True, "slos": slos})


def stale_detail(detail: TenantDetail, why: str) -> TenantDetail:
    """Return a tenant's details without a prediction error; `why` precedes its other reasons."""
    told = "; ".join(filter(None, (why, detail.why)))
    tenant = stale_tenant(detail.tenant, why)
    return detail.model_copy(update={"tenant": tenant, "why": told, "prediction_error": None})
