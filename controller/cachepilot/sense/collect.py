# SPDX-License-Identifier: Apache-2.0
"""The collect step: turns a snapshot from the wire into the planner's, with its evidence.

A tenant is a managed cgroup. Its first memory is the limit it had when it was first seen.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cachepilot.domain.objectives.objective import Counter, Indicator, Objectives
from cachepilot.domain.snapshot import (
    Curves,
    Demand,
    Device,
    Node,
    Snapshot,
    Tenant,
)
from cachepilot.domain.units import US_PER_S
from cachepilot.errors import InputError
from cachepilot.quick_records import quickly_made
from cachepilot.sense.clock import Clock
from cachepilot.sense.counterfactuals import DEFAULT, Counterfactual, take_all
from cachepilot.sense.counters import (
    WINDOW,
    Counters,
    Pages,
    Readings,
    Sample,
    Totals,
    Window,
    totals_of,
)
from cachepilot.sense.curves.wire_curves import CurveStore, Measured
from cachepilot.sense.device import DeviceModel
from cachepilot.sense.node_scrape import Scrape, Scraped, ScrapedCounter
from cachepilot.sense.tenant_memory import TenantMemory, held_bytes, tenant_of
from cachepilot.sizes import PAGE_BYTES, pages_up
from cachepilot.v1 import session_pb2 as wire

LOG = logging.getLogger(__name__)


def not_scraped(_: Indicator) -> Scrape | None:
    """A `Scraped` that knows no counter."""
    return None


@quickly_made
@dataclass(frozen=True, slots=True)
class Seen:
    """One tenant in a snapshot: what the planner gets, and what the other steps need."""

    tenant: Tenant
    wire: wire.Tenant
    sample: Sample | None
    window: Window | None
    measured: Measured | None
    indicator: Indicator
    pages: Pages | None = None
    counterfactual: Counterfactual | None = None
    usable: frozenset[str] = frozenset()
    """Policies that the node can attach, including the present one."""
    is_filling: bool = False
    """Whether the page cache has not yet filled its limit."""
    is_window_full: bool = True
    """Whether the page cache was filling in no interval of `window`."""

    @property
    def limit_bytes(self) -> int:
        """The limit, or the memory used by a tenant without one."""
        return self.tenant.limit_bytes

    @property
    def least_limit_bytes(self) -> int:
        """What cannot be reclaimed, with a margin, in whole pages: no limit is lower.

        The tenant's `floor_bytes` may be more: they include protected memory.
        """
        return max(PAGE_BYTES, pages_up(self.wire.floor_bytes))

    @property
    def held_bytes(self) -> int:
        """Memory that the tenant has or will get; a limit that falls counts until it is down."""
        return max(self.tenant.limit_bytes, self.wire.target_limit_bytes)

    def with_bounds(
        self,
        floor_bytes: int,
        first_bytes: int,
        curves: Curves | None = None,
        certain: Curves | None = None,
        first_miss: float = 0.0,
    ) -> "Seen":
        """The same tenant with another floor and first memory, and other curves if given.

        The floor is the least memory that the tenant may have. `certain` are curves that assume
        only what is certain, and `first_miss` is the miss ratio with the first memory; 0 if
        unknown.
        """
        tenant = self.tenant.with_bounds(floor_bytes, first_bytes, curves, certain, first_miss)
        return Seen(
            tenant, self.wire, self.sample, self.window, self.measured, self.indicator, self.pages,
            self.counterfactual, self.usable, self.is_filling, self.is_window_full,
        )  # fmt: skip


@dataclass(frozen=True)
class Collected:
    """One node at one time. `seen` is in the order of cgroups; `conditions` are the node's."""

    snapshot: Snapshot
    seen: dict[str, Seen]
    device_iops: float
    dropped_events_total: int
    conditions: tuple[wire.Condition, ...] = ()

    @property
    def time_s(self) -> float:
        """The time of the snapshot by the node's clock, in seconds."""
        return self.snapshot.time_s

    @property
    def free_bytes(self) -> int:
        """Memory of the node that belongs to no limit."""
        held = sum(one.held_bytes for one in self.seen.values())
        return max(0, self.snapshot.node.shared_bytes - held)


class Demands(Protocol):
    """Throughput models of the tenants of one node, by cgroup, each fitted to measurements."""

    def demand(
        self,
        cgroup: str,
        sample: Sample | None,
        window: Window | None,
        miss_cost_us: float,
        concurrency: float,
        is_filling: bool,
    ) -> Demand:
        """The demand as fitted so far; takes in the interval if operations were done in it.

        Until the page cache has filled for the first time, nothing is fitted.
        """

    def begin_anew(self, cgroup: str) -> None:
        """Forget the fit, since operations are counted differently from now on."""

    def forget(self, cgroup: str) -> None:
        """Forget a tenant that is gone or was replaced by another of the same name."""


class Collector:
    """Collects the snapshots of one node; totals may restart and snapshots may be lost.

    Over a time that is far longer than `interval_s` seconds nothing is measured. It is unknown what
    tenants did in it, and whether the clock was only put forward.
    """

    def __init__(
        self,
        node: str,
        demands: Demands,
        scraped: Scraped = not_scraped,
        interval_s: float | None = None,
    ) -> None:
        self.node, self._demands = node, demands
        self._clock = Clock(interval_s=interval_s)
        self._scraped = scraped
        self._incarnation: int | None = None
        self._usable: frozenset[str] = frozenset((DEFAULT,))
        self._memory: dict[str, TenantMemory] = {}
        self._counters = Counters()
        self._device = DeviceModel()

    def begin(self, hello: wire.Hello) -> None:
        """Begin a session; totals and generations of another incarnation are forgotten."""
        if hello.incarnation != self._incarnation:
            self._incarnation = hello.incarnation
            self._device.restart()
            self._counters = Counters()
            for memory in self._memory.values():
                memory.curves = CurveStore()
                memory.counterfactuals.forget()
                memory.forget_scraped()
        can = "policies" in hello.capabilities
        self._usable = frozenset((DEFAULT, *hello.policies)) if can else frozenset()

    def collect(self, seen: wire.Snapshot, epoch: int, objectives: Objectives) -> Collected:
        """Take in a snapshot. Tenants whose curves contradict themselves get low confidence."""
        time_s = seen.time_us / US_PER_S
        passed = self._clock.advance(time_s)
        if passed.is_gap:
            self._begin_anew()
        device = self._device.take(seen.device, time_s)
        gone = self._memory.keys() - {tenant.cgroup for tenant in seen.tenants}
        for cgroup in gone:
            del self._memory[cgroup]
            self._demands.forget(cgroup)
        told = {one.cgroup: one for one in sorted(seen.tenants, key=lambda one: one.cgroup)}
        readings = self._readings(told, time_s, passed.counted_s, objectives)
        found = self._found(told, readings, device, passed.counted_s)
        node = Node(self.node, seen.budget_bytes, cpus=seen.cpus or None)
        tenants = tuple(one.tenant for one in found.values())
        snapshot = Snapshot(epoch, time_s, node, device, tenants)
        dropped, conditions = seen.loss.dropped_events_total, tuple(seen.conditions)
        return Collected(snapshot, found, self._device.iops, dropped, conditions)

    def _begin_anew(self) -> None:
        """Forget totals after a gap: those of the next snapshot are the first to compare with."""
        self._device.restart()
        self._counters.begin_anew()
        for memory in self._memory.values():
            memory.counterfactuals.forget()
            memory.forget_scraped()

    def _readings(
        self,
        told: Mapping[str, wire.Tenant],
        time_s: float,
        elapsed_s: float,
        objectives: Objectives,
    ) -> Readings:
        """Take in the totals of all tenants; those of new tenants or indicators start again."""
        totals: dict[str, Totals] = {}
        latency: list[list[int]] = []
        anew: list[str] = []
        for cgroup, tenant in told.items():
            memory = self._memory.get(cgroup)
            if memory is None or memory.cgroup_id != tenant.cgroup_id:
                memory = self._memory[cgroup] = TenantMemory(tenant.cgroup_id)
                self._demands.forget(cgroup)
                anew.append(cgroup)
            indicator = objectives.of(cgroup).indicator
            if indicator is not memory.indicator:
                if indicator != memory.indicator:
                    self._demands.begin_anew(cgroup)
                    anew.append(cgroup)
                    is_scraped = indicator.counter is Counter.PROMETHEUS
                    memory.scraped = ScrapedCounter() if is_scraped else None
                memory.indicator = indicator
            totals[cgroup] = known = totals_of(tenant.counters, indicator.counter)
            memory.refused_indicator = ""
            if memory.scraped is not None:
                ops = memory.scraped.take(self._scrape(memory), known, elapsed_s)
                totals[cgroup] = known._replace(ops=ops)
            latency.append(tenant.counters.read_latency_total[:])
        self._counters.forget(anew)
        readings = self._counters.take(time_s, totals, latency, self._device.read_us)
        for row, cgroup in enumerate(told):
            counter, pages = self._memory[cgroup].scraped, readings.pages[row]
            if counter is not None and pages is not None:
                # Of the time between two rises, which may be longer than an interval.
                readings.pages[row] = pages._replace(ops=counter.ops)
                readings.samples[row] = counter.sample(time_s, self._device.read_us)
        return readings

    def _scrape(self, memory: TenantMemory) -> Scrape | None:
        """An application's counter; None while it is unknown, or if it is not this node's."""
        try:
            return self._scraped(memory.indicator)
        except InputError as error:
            memory.refused_indicator = str(error)
            return None

    def _found(
        self,
        told: Mapping[str, wire.Tenant],
        readings: Readings,
        device: Device,
        elapsed_s: float,
    ) -> dict[str, Seen]:
        """All tenants of the snapshot, by cgroup."""
        memories = [self._memory[cgroup] for cgroup in told]
        counterfactuals = self._counterfactuals(told, memories)
        found = {}
        for tenant, memory, sample, window, concurrency, pages, counterfactual in zip(
            told.values(), memories, readings.samples, readings.windows, readings.concurrency,
            readings.pages, counterfactuals, strict=True,
        ):  # fmt: skip
            if tenant.HasField("curves"):
                memory.refused_curves = ""
                try:
                    memory.curves.take(tenant.curves)
                except InputError as error:
                    memory.curves, memory.refused_curves = CurveStore(), str(error)
            is_filling = memory.filling.take(tenant, elapsed_s)
            demand = self._demands.demand(
                tenant.cgroup, sample, window, device.miss_cost_us, concurrency, is_filling
            )
            measured, usable = self._measured(tenant, memory)
            planned = tenant_of(tenant, memory, window, measured, demand)
            found[tenant.cgroup] = Seen(
                planned, tenant, sample, window, measured, memory.indicator, pages, counterfactual,
                usable, is_filling, memory.filling.since is None or memory.filling.since >= WINDOW,
            )  # fmt: skip
        return found

    def _measured(
        self, tenant: wire.Tenant, memory: TenantMemory
    ) -> tuple[Measured | None, frozenset[str]]:
        """Curves over limits, or None if those in force are not known; and the usable policies."""
        usable, policy = self._usable, tenant.policy
        if policy not in usable:
            usable = usable | {policy}
        if not memory.curves.generation or tenant.curves_generation != memory.curves.generation:
            return None, usable
        seen_bytes = max(0, tenant.file_bytes - tenant.mapped_bytes)
        other = max(0, tenant.current_bytes - seen_bytes)
        return memory.curves.at(other, held_bytes(tenant), usable), usable

    def _counterfactuals(
        self, told: Mapping[str, wire.Tenant], memories: Sequence[TenantMemory]
    ) -> list[Counterfactual | None]:
        """Counterfactuals of the last interval; None if invalid, which is logged once."""
        pairs = zip((one.counterfactuals for one in memories), told.values(), strict=True)
        found: list[Counterfactual | None] = []
        for cgroup, memory, one in zip(told, memories, take_all(list(pairs)), strict=True):
            if not isinstance(one, InputError):
                memory.refused_counterfactuals = ""
                found.append(one)
                continue
            found.append(None)
            if str(one) != memory.refused_counterfactuals:
                memory.refused_counterfactuals = str(one)
                LOG.warning("node %s: %s: %s", self.node, cgroup, one)
        return found
