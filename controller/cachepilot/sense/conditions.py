# SPDX-License-Identifier: Apache-2.0
"""Conditions of a tenant that an agent reports, and its Kubernetes names."""

from collections.abc import Iterable, Iterator

from cachepilot.domain.objectives.workload import Workload
from cachepilot.v1 import session_pb2 as wire


def _yielded(tenant: wire.Tenant) -> wire.Condition | None:
    conditions = tenant.conditions
    if not conditions:
        return None
    return next((one for one in conditions if one.kind == wire.Condition.LIMIT_YIELDED), None)


def yielded_since_us(tenant: wire.Tenant) -> int | None:
    """Since when others set the limit, in microseconds of the node's clock; None if they do not."""
    found = _yielded(tenant)
    return None if found is None else found.since_us


def yielded_to(tenant: wire.Tenant) -> str:
    """Who sets the tenant's limit instead of the agent, as text; empty if nobody does."""
    found = _yielded(tenant)
    return "" if found is None else found.message or "the agent does not say who"


def workload_of(tenant: wire.Tenant) -> Workload | None:
    """The Kubernetes names of a tenant; None if it has none, or none that are known yet."""
    if not tenant.HasField("workload"):
        return None
    told = tenant.workload
    return Workload.of(tenant.cgroup, told.namespace, told.pod, told.container, told.labels)


def workloads_of(tenants: Iterable[wire.Tenant]) -> Iterator[Workload]:
    """The names of tenants that have them, in the order of the tenants."""
    return filter(None, map(workload_of, tenants))
