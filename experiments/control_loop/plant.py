# SPDX-License-Identifier: Apache-2.0
"""A simulated node that consists of nothing but its miss ratio curves, in virtual time.

Its tenants run closed loops on one device. The node speaks the messages of the wire protocol, so
the control loop cannot distinguish it from an agent.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cachepilot.sizes import PAGE_BYTES
from cachepilot.v1 import session_pb2 as wire

from .reported import counterfactuals, curves
from .sampling import GROUPS, RATE, Sampling

MIB = 1 << 20
TOLD_REREAD_SHARE = 0.1
"""Share of the page cache that a swap is reported to read again, for a tenant whose swaps actually
read nothing again.
"""
Curve = Callable[[float], float]
"""Maps a size in bytes to the miss ratio at that size."""


def flat(miss: float) -> Curve:
    """Return a curve with the same miss ratio at every size."""
    return lambda _: miss


def scan(working_set_bytes: int, least: float = 0.0) -> Curve:
    """Return a curve of only misses below the working set, as recency order has on a loop."""
    return lambda size: least if size >= working_set_bytes else 1.0


def linear(working_set_bytes: int, least: float = 0.0, most: float = 1.0) -> Curve:
    """Return a curve that falls linearly from `most` at size 0 to `least`."""
    return lambda size: max(least, most - (most - least) * size / working_set_bytes)


def power(scale_bytes: int, exponent: float) -> Curve:
    """Return a curve with a heavy tail, as Zipf's law produces."""
    return lambda size: (1 + size / scale_bytes) ** -exponent


@dataclass
class PlantTenant:
    """One workload.

    `curves` are the true miss ratio curves by policy, `told` those that the agent reports.

    A policy without an entry in `told` is reported truthfully. With `sampling`, counterfactuals
    have a sampling error. A swap of the policy reads `reread_pages` again, and `tells_reread` says
    whether the agent reports this. Swapping back reads at most the pages that were missed since the
    swap, since no other page has left the page cache. `waits` maps a size in bytes to the number of
    device reads that an operation waits for per page that it misses.
    """

    cgroup: str
    curves: dict[str, Curve]
    limit_bytes: int
    told: dict[str, Curve] = field(default_factory=dict)
    policy: str = "default"
    service_us: float = 50.0
    accesses_per_op: float = 1.0
    threads: float = 4.0
    waits: Curve = field(default_factory=lambda: flat(1.0))
    reads_per_miss: dict[str, float] = field(default_factory=dict)
    """Device reads per miss by policy, if not 1. Readahead brings in many pages with one read."""
    floor_bytes: int = MIB
    other_bytes: int = 0
    error_bar: float = 0.01
    distrust: str = ""
    is_sampled: bool = True
    phase: int = 0
    target_bytes: int = 0
    cgroup_id: int = 1
    miss: float | None = None
    generation: int = 1
    seen_generation: int = 0
    totals: wire.Counters = field(default_factory=wire.Counters)
    readahead: wire.Readahead | None = None
    parts: dict[str, float] = field(default_factory=dict)
    missed: dict[str, np.ndarray] = field(default_factory=dict)
    """By policy and group: the reported misses that the policy would have had so far."""
    accessed: float = 0.0
    sampling: Sampling | None = None
    reread_pages: float = 0.0
    tells_reread: bool = True
    room_bytes: float = 0.0
    """Part of a cold page cache that has not been read yet. When a limit rises, the new memory
    counts as filled at once.
    """
    owed_pages: float = 0.0
    """Pages that the last swap has yet to read again."""
    anew: float = 0.0
    """Pages read again because of a swap, per access of this interval."""
    done: float = 0.0
    """Operations so far. An agent restart does not reset them."""
    before: str = ""
    read_since: float = 0.0
    """The policy before the last swap (`before`), and pages missed since then (`read_since`)."""

    def __post_init__(self) -> None:
        self.target_bytes = self.target_bytes or self.limit_bytes

    def change(self, curves: dict[str, Curve]) -> None:
        """Begin another regime.

        Curves and counterfactuals change, but the agent does not announce it.
        """
        self.curves, self.told = curves, {}
        self.generation += 1

    def told_curve(self, policy: str) -> Curve:
        """Return the curve that the agent reports for a policy."""
        return self.told.get(policy, self.curves[policy])

    def simulate(self, accesses: float, shares: np.ndarray) -> None:
        """Add the misses that every policy would have had.

        `shares` are the groups' shares of the accesses.
        """
        self.accessed += accesses
        size = self.limit_bytes - self.other_bytes
        told = np.array([self.told_curve(policy)(size) for policy in self.curves])
        expected = accesses * told[:, None] * shares
        found = expected if self.sampling is None else self.sampling.sampled(expected)
        for policy, missed in zip(self.curves, found, strict=True):
            self.missed[policy] = self.missed.get(policy, np.zeros(GROUPS)) + missed

    @property
    def reads_per_op(self) -> float:
        """Number of device reads that an operation waits for."""
        missed = self.accesses_per_op * ((self.miss or 0.0) + self.anew)
        return missed * self.waits(self.limit_bytes) * self.reads_per_miss.get(self.policy, 1.0)

    def swap(self, policy: str) -> None:
        """Put another policy in force."""
        if policy != self.policy:
            most = self.read_since if policy == self.before else self.reread_pages
            self.before, self.policy = self.policy, policy
            self.owed_pages, self.read_since = min(self.reread_pages, most), 0.0

    def restart_counting(self) -> None:
        """Reset all counters, as when the agent restarts."""
        self.totals, self.parts, self.missed = wire.Counters(), {}, {}
        self.accessed, self.phase, self.generation = 0.0, 0, 1

    def count(self, name: str, amount: float) -> None:
        """Add to a total. Fractions are carried over to the next call."""
        self.parts[name] = self.parts.get(name, 0.0) + amount
        whole = int(self.parts[name])
        self.parts[name] -= whole
        setattr(self.totals, name, getattr(self.totals, name) + whole)


@dataclass
class Plant:
    """A node of tenants. `shrink_bytes` is how many bytes per second a limit can fall.

    Without `cpus` it reports nothing about CPUs, like agents of earlier versions.
    """

    tenants: list[PlantTenant]
    budget_bytes: int
    sizes_bytes: Sequence[int]
    miss_cost_us: float = 500.0
    capacity_iops: float = 1e9
    noise: float = 0.01
    adapt_s: float = 1.0
    shrink_bytes: int = 1 << 40
    seed: int = 0
    cpus: int = 0
    time_s: float = 1000.0
    sequence: int = 0
    epoch: int = 0
    incarnation: int = 1
    reads: float = 0.0
    read_time_us: float = 0.0
    refuse: dict[str, str] = field(default_factory=dict)
    most_assigned_bytes: int = 0
    swaps: list[tuple[float, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._pages = np.random.default_rng(self.seed + 1)

    def of(self, cgroup: str) -> PlantTenant:
        """Return the tenant with this cgroup path."""
        return next(one for one in self.tenants if one.cgroup == cgroup)

    def hello(self) -> wire.Hello:
        """Return the greeting of the node.

        It names every policy for which some tenant has a curve.
        """
        names = sorted({name for one in self.tenants for name in one.curves} - {"default"})
        return wire.Hello(
            node="plant",
            kind="simulated",
            capabilities=["policies", "limits", "curves"],
            policies=names,
            budget_bytes=self.budget_bytes,
            last_epoch=self.epoch,
            incarnation=self.incarnation,
        )

    def ops(self, tenant: PlantTenant, wait_us: float = 0.0) -> float:
        """Return a tenant's operations per second at its present miss ratio."""
        cost = tenant.reads_per_op * (self.miss_cost_us + wait_us)
        return 1e6 * tenant.threads / (tenant.service_us + cost)

    def _wait_us(self) -> float:
        """Return the wait per read, in microseconds, at which the device serves all reads.

        It is found by bisection.
        """
        low, high = 0.0, 1e7

        def reads(wait: float) -> float:
            return sum(self.ops(one, wait) * one.reads_per_op for one in self.tenants)

        if reads(0.0) <= self.capacity_iops:
            return 0.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if reads(middle) > self.capacity_iops else (low, middle)
        return high

    def pass_time(self, elapsed_s: float = 1.0) -> None:
        """Let the tenants run for `elapsed_s` seconds."""
        self.time_s += elapsed_s
        for one in self.tenants:
            down = int(self.shrink_bytes * elapsed_s)
            one.limit_bytes = max(one.target_bytes, one.limit_bytes - down)
            held = one.limit_bytes - one.other_bytes - int(one.room_bytes)
            truth = one.curves[one.policy](held)
            part = 1.0 if one.miss is None else 1 - math.exp(-elapsed_s / self.adapt_s)
            one.miss = truth if one.miss is None else one.miss + (truth - one.miss) * part
            one.anew = self._anew(one, elapsed_s)
        wait_us = self._wait_us()
        for one in self.tenants:
            factor = 1 + self.noise * float(self._random.standard_normal())
            ops = self.ops(one, wait_us) * max(factor, 0.1) * elapsed_s
            accesses = ops * one.accesses_per_op
            misses = accesses * ((one.miss or 0.0) + one.anew)
            reads = ops * one.reads_per_op
            one.owed_pages = max(0.0, one.owed_pages - accesses * one.anew)
            one.room_bytes = max(0.0, one.room_bytes - misses * PAGE_BYTES)
            one.read_since += misses
            one.done += ops
            one.simulate(accesses, self._shares())
            one.count("accesses_total", accesses)
            one.count("misses_total", misses)
            one.count("block_reads_total", reads)
            one.count("read_calls_total", ops)
            one.count("read_time_us_total", one.threads * elapsed_s * 1e6 if ops > 0 else 0.0)
            if self.cpus:
                one.count("cpu_time_us_total", ops * one.service_us)
            self.reads += reads
            self.read_time_us += reads * (self.miss_cost_us + wait_us)

    def _anew(self, one: PlantTenant, elapsed_s: float) -> float:
        """Return the pages per access that a tenant reads again because of a swap.

        Other pages still hit.
        """
        if not one.owed_pages:
            return 0.0
        one.anew = 0.0
        accesses = self.ops(one) * one.accesses_per_op * elapsed_s
        due = one.owed_pages * (1 - math.exp(-elapsed_s / self.adapt_s))
        return min(due / accesses, 1.0 - (one.miss or 0.0))

    def _shares(self) -> np.ndarray:
        """Return the shares of the groups in one interval.

        The noise determines how unequal they are.
        """
        found = np.maximum(0.0, 1 + self.noise * self._pages.standard_normal(GROUPS))
        return np.asarray(found / found.sum())

    def _counterfactuals(self, one: PlantTenant) -> wire.Counterfactuals:
        size = one.limit_bytes - one.other_bytes
        reread = one.reread_pages or TOLD_REREAD_SHARE * (size / PAGE_BYTES)
        reread = reread if one.tells_reread else 0.0
        names = sorted(one.curves, key=lambda name: (name != "default", name))
        told = {name: 0.0 if name == one.policy else reread for name in names}
        rate = RATE if one.sampling is None else one.sampling.rate
        return counterfactuals(one.missed, one.accessed, told, size, rate)

    def _curves(self, one: PlantTenant) -> wire.Curves:
        told = {name: one.told_curve(name) for name in sorted(one.curves)}
        return curves(told, self.sizes_bytes, one.error_bar, one.generation)

    def snapshot(self) -> wire.Snapshot:
        """Return the agent's snapshot of the time until now."""
        self.sequence += 1
        found = wire.Snapshot(
            sequence=self.sequence,
            time_us=int(self.time_s * 1e6),
            budget_bytes=self.budget_bytes,
            device=wire.Device(
                capacity_iops=self.capacity_iops,
                idle_read_us=self.miss_cost_us,
                reads_total=int(self.reads),
                read_time_us_total=int(self.read_time_us),
            ),
            cpus=self.cpus,
        )
        for one in self.tenants:
            told = found.tenants.add(
                cgroup=one.cgroup,
                cgroup_id=one.cgroup_id,
                policy=one.policy,
                limit_bytes=one.limit_bytes,
                target_limit_bytes=one.target_bytes,
                floor_bytes=one.floor_bytes,
                current_bytes=one.limit_bytes - int(one.room_bytes),
                file_bytes=one.limit_bytes - one.other_bytes - int(one.room_bytes),
                anon_bytes=one.other_bytes,
                counters=one.totals,
                curves_generation=one.generation,
                trusted=not one.distrust,
                distrust=one.distrust,
                phase=one.phase,
                readahead=one.readahead,
            )
            if one.is_sampled:
                told.counterfactuals.CopyFrom(self._counterfactuals(one))
            if one.seen_generation != one.generation:
                told.curves.CopyFrom(self._curves(one))
                one.seen_generation = one.generation
        return found

    def forget_session(self) -> None:
        """Begin a new session: curves are sent again."""
        self.sequence = 0
        for one in self.tenants:
            one.seen_generation = 0

    def restart_agent(self) -> None:
        """Restart the agent. Policies and limits stay as they are."""
        self.incarnation += 1
        for one in self.tenants:
            one.restart_counting()
        self.forget_session()

    def apply(self, plan: wire.Plan) -> wire.Ack:
        """Carry out a plan. A plan with an old epoch is refused."""
        if plan.epoch <= self.epoch:
            return wire.Ack(epoch=plan.epoch, refused=f"epoch {plan.epoch} is old")
        self.epoch = plan.epoch
        ack = wire.Ack(epoch=plan.epoch)
        for action in plan.actions:
            one = self.of(action.cgroup)
            result = ack.results.add(cgroup=one.cgroup, outcome=wire.Result.APPLIED)
            if action.HasField("policy") and one.cgroup in self.refuse:
                result.outcome = wire.Result.REFUSED
                result.reason = self.refuse[one.cgroup]
            elif action.HasField("policy"):
                one.swap(action.policy)
                self.swaps.append((self.time_s, one.cgroup, action.policy))
            if action.HasField("limit_bytes"):
                assert action.limit_bytes % PAGE_BYTES == 0
                one.target_bytes = action.limit_bytes
                one.limit_bytes = max(one.limit_bytes, one.target_bytes)
                if one.target_bytes < one.limit_bytes:
                    result.outcome = wire.Result.STARTED
            result.policy, result.limit_bytes = one.policy, one.target_bytes
        assigned = sum(max(one.limit_bytes, one.target_bytes) for one in self.tenants)
        self.most_assigned_bytes = max(self.most_assigned_bytes, assigned)
        return ack
