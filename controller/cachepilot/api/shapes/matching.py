# SPDX-License-Identifier: Apache-2.0
"""Which objectives match no known tenant."""

from collections.abc import Iterable, Iterator, Sequence

from cachepilot.api.shapes.objectives import ObjectivesShape
from cachepilot.api.shapes.views import TenantView
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.objectives.workload import Workload


def workloads_of(tenants: Iterable[TenantView]) -> Iterator[Workload]:
    """What Kubernetes calls tenants, of those that it has a name for."""
    for tenant in tenants:
        if tenant.workload is not None:
            yield Workload.of(tenant.cgroup, **tenant.workload.model_dump())


def unmatched_of(objectives: Objectives, tenants: Sequence[TenantView]) -> list[str]:
    """Objectives, by their cgroup, that match none of the tenants.

    Before any agent has sent a snapshot no tenant is known, and nothing is told of any objective.
    """
    if not tenants:
        return []
    among = objectives.among(workloads_of(tenants))
    return among.unmatched({tenant.cgroup for tenant in tenants})


def objectives_beside(objectives: Objectives, tenants: Sequence[TenantView]) -> ObjectivesShape:
    """All objectives, and which of them match none of the tenants, if there are any."""
    unmatched = unmatched_of(objectives, tenants) or None
    return ObjectivesShape.of(objectives).model_copy(update={"unmatched": unmatched})
