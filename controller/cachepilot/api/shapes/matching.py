# SPDX-License-Identifier: Apache-2.0
"""Which objectives match no known tenant."""

from collections.abc import Iterable, Iterator, Sequence

from cachepilot.api.shapes.objectives import ObjectivesShape
from cachepilot.api.shapes.views import TenantView
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.objectives.workload import Workload


def workloads_of(tenants: Iterable[TenantView]) -> Iterator[Workload]:
    """Yield the Kubernetes names of the tenants that have one."""
    for tenant in tenants:
        if tenant.workload is not None:
            yield Workload.of(tenant.cgroup, **tenant.workload.model_dump())


def unmatched_of(objectives: Objectives, tenants: Sequence[TenantView]) -> list[str]:
    """Return the objectives, by their cgroup, that match none of the tenants.

    Without any tenant the result is empty: no agent has sent a snapshot yet.
    """
    if not tenants:
        return []
    among = objectives.among(workloads_of(tenants))
    return among.unmatched({tenant.cgroup for tenant in tenants})


def objectives_beside(objectives: Objectives, tenants: Sequence[TenantView]) -> ObjectivesShape:
    """Return all objectives, and the list of those that match none of the tenants, if any."""
    unmatched = unmatched_of(objectives, tenants) or None
    return ObjectivesShape.of(objectives).model_copy(update={"unmatched": unmatched})
