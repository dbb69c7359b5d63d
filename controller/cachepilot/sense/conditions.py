# SPDX-License-Identifier: Apache-2.0
"""What an agent says that holds of a tenant, and what Kubernetes calls it."""

from collections.abc import Iterable, Iterator

from cachepilot.domain.objectives.workload import Workload
from cachepilot.v1 import session_pb2 as wire


def _yielded(tenant: wire.Tenant) -> wire.Condition | None:
    conditions = tenant.conditions
    if not conditions:
        return None
    return next((one for one in conditions if one.kind == wire.Condition.LIMIT_YIELDED), None)


def yielded_since_us(tenant: wire.Tenant) -> int | None:
    """Since when its limit is left to who else sets it, by the node's time; None when it is not."""
    found = _yielded(tenant)
    return None if found is None else found.since_us


def yielded_to(tenant: wire.Tenant) -> str:
    """Who sets its limit instead of the agent, in words; empty when nobody does."""
    found = _yielded(tenant)
    return "" if found is None else found.message or "the agent does not say who"


def workload_of(tenant: wire.Tenant) -> Workload | None:
    """Its names; None where it is none of Kubernetes, or not known to the node's runtime yet."""
    if not tenant.HasField("workload"):
        return None
    told = tenant.workload
    return Workload.of(tenant.cgroup, told.namespace, told.pod, told.container, told.labels)


def workloads_of(tenants: Iterable[wire.Tenant]) -> Iterator[Workload]:
    """Those that have names, in the order of the tenants."""
    return filter(None, map(workload_of, tenants))
