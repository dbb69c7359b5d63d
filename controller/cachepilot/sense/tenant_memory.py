# SPDX-License-Identifier: Apache-2.0
"""What the collector keeps of one tenant, and the planner's tenant that it makes with that."""

from cachepilot.domain.objectives.objective import Indicator
from cachepilot.domain.snapshot import Demand, Indicators, Tenant, Trust
from cachepilot.sense.conditions import yielded_to
from cachepilot.sense.counterfactuals import Counterfactuals
from cachepilot.sense.counters import Window
from cachepilot.sense.curves.wire_curves import CurveStore, Measured
from cachepilot.sense.filling import Filling
from cachepilot.sense.node_scrape import ScrapedCounter
from cachepilot.sizes import PAGE_BYTES, pages_up
from cachepilot.v1 import session_pb2 as wire

TRUSTED = Trust()
INDICATOR = Indicator()
IDLE = Indicators(throughput_ops=0.0, miss_ratio=0.0, device_iops=0.0)


class TenantMemory:
    """What the collector keeps of one tenant between snapshots."""

    __slots__ = (
        "cgroup_id", "counterfactuals", "curves", "filling", "indicator", "refused_counterfactuals",
        "refused_curves", "refused_indicator", "scraped",
    )  # fmt: skip

    def __init__(self, cgroup_id: int) -> None:
        self.cgroup_id = cgroup_id
        self.curves = CurveStore()
        self.counterfactuals = Counterfactuals()
        self.filling = Filling()
        self.indicator = INDICATOR
        self.refused_curves = ""
        self.refused_counterfactuals = ""
        self.refused_indicator = ""
        self.scraped: ScrapedCounter | None = None

    def forget_scraped(self) -> None:
        """What the application counts next cannot be compared with what was before."""
        if self.scraped is not None:
            self.scraped.forget()


def held_bytes(tenant: wire.Tenant) -> int:
    """The limit, or the memory used by a tenant without one, in whole pages."""
    return tenant.limit_bytes or pages_up(max(tenant.current_bytes, PAGE_BYTES))


def tenant_of(
    tenant: wire.Tenant,
    memory: TenantMemory,
    window: Window | None,
    measured: Measured | None,
    demand: Demand,
) -> Tenant:
    """Return the planner's tenant: its setting, its curves and whether they are trusted."""
    held, floor = held_bytes(tenant), tenant.floor_bytes
    return Tenant(
        tenant.cgroup,
        tenant.policy,
        held,
        floor if tenant.limit_bytes else min(floor, held),
        measured.curves if measured else None,
        demand,
        IDLE if window is None else _indicators(window),
        _trust(tenant, measured, window, memory),
        yielded=yielded_to(tenant),
    )


def _indicators(window: Window) -> Indicators:
    return Indicators(
        window.ops, window.miss_ratio, window.block_reads, window.latency_p99_us, window.cpus
    )


def _trust(
    tenant: wire.Tenant, measured: Measured | None, window: Window | None, memory: TenantMemory
) -> Trust:
    if memory.refused_indicator:
        return Trust(False, memory.refused_indicator)
    is_measured = window is not None and window.ops > 0
    if memory.refused_curves:
        why = f"curves contradict themselves: {memory.refused_curves}"
        return Trust(False, why, is_measured)
    if measured is None:
        return Trust(False, tenant.distrust or "there are no curves yet", is_measured)
    if not tenant.trusted:
        return Trust(False, tenant.distrust or "the agent gives no reason", is_measured)
    return TRUSTED if is_measured else Trust(False, "no operations were counted yet")
