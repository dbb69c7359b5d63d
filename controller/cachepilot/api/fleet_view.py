# SPDX-License-Identifier: Apache-2.0
"""The fleet in a few numbers, and its tenants page by page."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from cachepilot.api.shapes.shape import Shape
from cachepilot.api.shapes.views import NodeView, TenantView

PAGE_MAX = 1000


class FleetView(Shape):
    """Sums over all nodes and tenants."""

    nodes: int
    connected: int
    frozen: int
    """Nodes for which nothing is planned now."""
    stale: int
    """Nodes that send no snapshots; the sums include no measurements of their tenants."""
    tenants: int
    trials: int
    pinned: int
    untrusted: int
    budget_bytes: int
    limits_bytes: int
    """Memory allocated: the sum of all limits."""
    saved_bytes: int
    """For tenants with a limit before the autopilot started: that limit minus the target limit."""
    throughput_ops: float
    slos: int
    slos_met: int
    """SLOs that are met now, of those that are measured."""
    slos_unmeasured: int
    attainment: float | None
    """Mean over all SLOs of the share of windows in the last hour in which each was met."""


class Order(StrEnum):
    """What tenants can be ordered by."""

    CGROUP = "cgroup"
    NODE = "node"
    POLICY = "policy"
    LIMIT = "limit_bytes"
    CURRENT = "current_bytes"
    HIT_RATIO = "hit_ratio"
    THROUGHPUT = "throughput_ops"
    LATENCY = "latency_p99_us"
    ATTAINMENT = "attainment"
    DECIDED = "last_decision_s"


class Only(StrEnum):
    """Which tenants are listed."""

    SLO = "slo"
    MISSED = "missed"
    TRIAL = "trial"
    PINNED = "pinned"
    UNTRUSTED = "untrusted"
    STALE = "stale"


def fleet_view(nodes: Sequence[NodeView], tenants: Sequence[TenantView]) -> FleetView:
    """Return sums over the last measurements."""
    slos = [slo for tenant in tenants for slo in tenant.slos]
    shares = [slo.attainment for slo in slos if slo.attainment is not None]
    saved = sum(
        tenant.initial_limit_bytes - tenant.target_limit_bytes
        for tenant in tenants
        if tenant.initial_limit_bytes and tenant.target_limit_bytes
    )
    return FleetView(
        nodes=len(nodes),
        connected=sum(node.connected for node in nodes),
        frozen=sum(bool(node.problem) for node in nodes),
        stale=sum(node.stale for node in nodes),
        tenants=len(tenants),
        trials=sum(tenant.trial is not None for tenant in tenants),
        pinned=sum(_is_pinned(tenant) for tenant in tenants),
        untrusted=sum(not tenant.trusted for tenant in tenants),
        budget_bytes=sum(node.budget_bytes for node in nodes),
        limits_bytes=sum(node.limits_bytes for node in nodes),
        saved_bytes=saved,
        throughput_ops=sum(tenant.throughput_ops or 0.0 for tenant in tenants),
        slos=len(slos),
        slos_met=sum(slo.met is True for slo in slos),
        slos_unmeasured=sum(slo.met is None for slo in slos),
        attainment=sum(shares) / len(shares) if shares else None,
    )


def _is_pinned(tenant: TenantView) -> bool:
    return tenant.pinned_policy is not None or tenant.pinned_limit_bytes is not None


# Each function looks only at its own condition, because it runs for every tenant of the fleet.
_IS_LISTED: dict[Only, Callable[[TenantView], bool]] = {
    Only.SLO: lambda tenant: bool(tenant.slos),
    Only.MISSED: lambda tenant: any(slo.met is False for slo in tenant.slos),
    Only.TRIAL: lambda tenant: tenant.trial is not None,
    Only.PINNED: _is_pinned,
    Only.UNTRUSTED: lambda tenant: not tenant.trusted,
    Only.STALE: lambda tenant: tenant.stale,
}


def _attainment(tenant: TenantView) -> float | None:
    """Return the lowest attainment of the tenant's SLOs, or None."""
    return min((one.attainment for one in tenant.slos if one.attainment is not None), default=None)


def _ordered(tenants: list[TenantView], order: Order, falling: bool) -> list[TenantView]:
    """Sort by one column; tenants without a value come last in either direction."""

    def value(tenant: TenantView) -> str | float | None:
        if order is Order.ATTAINMENT:
            return _attainment(tenant)
        found: str | float | None = getattr(tenant, order)
        return found

    known = [(value(one), one) for one in tenants]
    there = [pair for pair in known if pair[0] is not None]
    # mypy cannot know that a column contains either texts or numbers, not both.
    there.sort(key=lambda pair: pair[0], reverse=falling)  # type: ignore[arg-type,return-value]
    return [one for _, one in there] + [one for found, one in known if found is None]


def select(
    tenants: Iterable[TenantView],
    search: str = "",
    only: Only | None = None,
    order: Order | None = None,
    falling: bool = False,
) -> list[TenantView]:
    """Return tenants whose node, cgroup or policy contain every word of `search`.

    They are sorted by `order`, by default as given: by node and cgroup.
    """
    words = search.lower().split()
    found = [
        tenant
        for tenant in tenants
        if (only is None or _IS_LISTED[only](tenant))
        and all(word in f"{tenant.node} {tenant.cgroup} {tenant.policy}".lower() for word in words)
    ]
    return found if order is None else _ordered(found, order, falling)
