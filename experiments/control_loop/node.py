# SPDX-License-Identifier: Apache-2.0
"""A node of random tenants as an agent reports it, with counters that have random noise.

Counts follow the curves at the policy and limit in force, so they agree with the counterfactuals.
Plans are carried out at once.
"""

from math import pi, sin

import numpy as np

from cachepilot.domain.snapshot import Curves, Snapshot, Tenant
from cachepilot.domain.units import US_PER_S
from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.sense.curves.wire_curves import value_at
from cachepilot.v1 import session_pb2 as wire

from .instances import snapshot

CHANGED_SHARE = 8
"""One in this many tenants has new curves in each interval."""
SWINGING_SHARE = 8
"""One in this many tenants has a miss ratio that swings, so its throughput model is fitted
completely.
"""
SWING, SWING_INTERVALS = 0.6, 24
INTERVAL_US = 1_000_000
SCATTER = 0.05
"""Standard deviation of the counts of an interval, divided by their mean."""
CANDIDATES = 6
"""Number of policies with counterfactuals: as many as the autopilot may choose from."""
GROUPS = 16
RATE = 0.1
"""Share of pages that is sampled."""
BUCKETS = 40
"""Number of buckets of the histogram of read calls."""


def _curves(tenant: Tenant) -> Curves:
    if tenant.curves is None:
        raise RuntimeError(f"{tenant.cgroup}: has no curves")
    return tenant.curves


class _Told:
    """The totals of one tenant, and its curves."""

    def __init__(self, tenant: Tenant) -> None:
        curves = _curves(tenant)
        self.names = (DEFAULT, *curves.policies[1:])
        self.sizes: list[int] = curves.sizes_bytes.tolist()
        self.rows: list[list[float]] = curves.miss_ratio.tolist()
        self.policy = self.names[curves.policies.index(tenant.policy)]
        self.limit_bytes = tenant.limit_bytes
        self.totals = np.zeros(4)
        self.latency = np.zeros(BUCKETS)
        self.accessed = np.zeros(GROUPS)
        self.candidates = self.names[:CANDIDATES]
        if self.policy not in self.candidates:
            self.candidates += (self.policy,)
        self.missed = np.zeros((len(self.candidates), GROUPS))

    def miss(self, policy: str) -> float:
        """Return the miss ratio under a policy at the present limit."""
        row = self.rows[self.names.index(policy)]
        return value_at(self.sizes, row, 1.0, self.limit_bytes)


class Node:
    """A node of `tenants` tenants with curves of `policies` policies.

    The load is about the same in every interval.
    """

    def __init__(self, seed: int, tenants: int, policies: int) -> None:
        self._seen: Snapshot = snapshot(seed, tenants, policies)
        self._random = np.random.default_rng(seed)
        self._told = [_Told(one) for one in self._seen.tenants]
        self._by_cgroup = {
            one.cgroup: told for one, told in zip(self._seen.tenants, self._told, strict=True)
        }
        self.hello = wire.Hello(
            node="node",
            kind="simulated",
            capabilities=["policies", "limits", "curves"],
            policies=self._told[0].names[1:],
            budget_bytes=self._seen.node.budget_bytes,
            incarnation=1,
        )
        self._interval = 0

    def report(self) -> wire.Snapshot:
        """Return the next snapshot.

        The first has all curves, later ones only those that changed.
        """
        self._interval += 1
        now = self._interval
        found = wire.Snapshot(
            sequence=now, time_us=now * INTERVAL_US, budget_bytes=self._seen.node.budget_bytes
        )
        found.device.idle_read_us = self._seen.device.miss_cost_us
        for i, (one, told) in enumerate(zip(self._seen.tenants, self._told, strict=True)):
            changed = now == 1 or (i + now) % CHANGED_SHARE == 0
            tenant = found.tenants.add(
                cgroup=one.cgroup,
                cgroup_id=i + 1,
                policy=told.policy,
                limit_bytes=told.limit_bytes,
                target_limit_bytes=told.limit_bytes,
                floor_bytes=one.floor_bytes,
                current_bytes=told.limit_bytes,
                file_bytes=told.limit_bytes,
                curves_generation=max(1, now - (i + now) % CHANGED_SHARE),
                trusted=True,
            )
            swing = 0.0 if i % SWINGING_SHARE else SWING * sin(2 * pi * now / SWING_INTERVALS)
            self._count(tenant, one, told, 1 + swing)
            if changed:
                _tell_curves(tenant.curves, told, _curves(one), tenant.curves_generation)
        return found

    def _count(self, tenant: wire.Tenant, one: Tenant, told: _Told, swing: float) -> None:
        """Count one interval: operations, their accesses, and the misses under every policy."""
        random = self._random
        ops = one.indicators.throughput_ops
        accesses = ops * one.demand.accesses_per_op + 1
        miss = min(1.0, swing * told.miss(told.policy))
        means = np.array((accesses, accesses * miss, ops, one.demand.concurrency * US_PER_S))
        scatter = np.abs(1 + SCATTER * random.standard_normal(means.size))
        told.totals += means * scatter
        told.latency += random.poisson(ops / BUCKETS, BUCKETS)
        counters, totals = tenant.counters, told.totals.astype(np.int64).tolist()
        counters.accesses_total, counters.misses_total = totals[:2]
        counters.read_calls_total, counters.read_time_us_total = totals[2:]
        counters.read_latency_total.extend(told.latency.astype(np.int64).tolist())
        sampled = accesses * RATE / GROUPS * scatter[0]
        ratios = [min(1.0, swing * told.miss(name)) for name in told.candidates]
        told.missed += random.poisson(sampled * np.array(ratios)[:, None], told.missed.shape) / RATE
        told.accessed += sampled / RATE
        found = tenant.counterfactuals
        found.generation, found.size_bytes, found.rate = 1, told.limit_bytes, RATE
        found.policies.extend(told.candidates)
        found.accesses_total.extend(told.accessed.tolist())
        found.misses_total.extend(told.missed.ravel().tolist())
        found.reread_pages.extend([100.0] * len(told.candidates))

    def obey(self, plan: wire.Plan) -> wire.Ack:
        """Carry out a plan at once."""
        ack = wire.Ack(epoch=plan.epoch)
        for action in plan.actions:
            told = self._by_cgroup[action.cgroup]
            told.policy = action.policy or told.policy
            told.limit_bytes = action.limit_bytes or told.limit_bytes
            ack.results.add(
                cgroup=action.cgroup,
                outcome=wire.Result.APPLIED,
                policy=told.policy,
                limit_bytes=told.limit_bytes,
            )
        return ack


def _tell_curves(found: wire.Curves, told: _Told, curves: Curves, generation: int) -> None:
    found.generation = generation
    found.policies.extend(told.names)
    found.sizes_bytes.extend(told.sizes)
    found.miss_ratio.extend(curves.miss_ratio.ravel().tolist())
    found.error_bar.extend([0.01] * curves.miss_ratio.size)
