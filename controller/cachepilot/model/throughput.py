# SPDX-License-Identifier: Apache-2.0
"""Throughput from miss ratios, and the device load that all tenants share.

An operation takes its service time and waits for accesses that miss. By Little's law

    ops per second = concurrency / (service + accesses per operation x miss ratio x miss cost)

The miss cost is that of the idle device plus `wait_us`, which is the same for all tenants. The wait
grows with the reads of all, as in `Device`, and they decrease with the wait: a fixed point.

`iops_over_miss_ratio` is HOLPACA's model (ICPE '26). It assumes that the device reads of a tenant
stay the same, so its throughput is these over its miss ratio, and misses slow no other tenant.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from cachepilot.domain.snapshot import Device, FloatArray, Tenant
from cachepilot.domain.units import US_PER_S

MISS_RATIO_FLOOR = 1e-3
"""Added to the miss ratio by `iops_over_miss_ratio`, whose throughput is unbounded near 0."""
IOPS_FLOOR = 1e-6
"""Device reads per second assumed for a tenant that reads nothing, to avoid 0 / 0."""
NEWTON_STEPS = 100


class ModelKind(StrEnum):
    """The model from miss ratio to throughput; see the top of the file."""

    SERVICE = "service"
    IOPS_OVER_MISS_RATIO = "iops_over_miss_ratio"


class TenantThroughput(NamedTuple):
    """The model of one tenant; its terms are those of `Throughput`."""

    scale: float
    base: float
    per_miss: float
    per_wait: float
    accesses: float

    def ops(self, wait_us: float, miss_ratio: float) -> float:
        """Operations per second while a device read waits `wait_us`."""
        slope = self.per_miss + self.per_wait * wait_us
        return self.scale / (self.base + slope * miss_ratio)


@dataclass(frozen=True)
class Throughput:
    """The model of N tenants; arrays have the shape (N,).

    ops = scale / (base + (per_miss + per_wait x wait_us) x miss ratio), and the device reads of a
    tenant are ops x accesses x miss ratio: those it waits for, and those that readahead or other
    threads do for it meanwhile.
    """

    scale: FloatArray
    base: FloatArray
    per_miss: FloatArray
    per_wait: FloatArray
    accesses: FloatArray
    capacity_iops: float
    queueing_us: float = 0.0

    def ops(self, miss: FloatArray, wait_us: float | FloatArray) -> FloatArray:
        """Operations per second at miss ratios (N,) or (N, K); the wait is common or (N,)."""
        scale, base, slope = self.scale, self.base, self.per_miss + self.per_wait * wait_us
        if miss.ndim == 2:
            scale, base, slope = scale[:, None], base[:, None], slope[:, None]
        found: FloatArray = scale / (base + slope * miss)
        return found

    def device_iops(self, miss: FloatArray, wait_us: float | FloatArray) -> FloatArray:
        """Device reads per second at miss ratios (N,) or (N, K); the wait is common or (N,)."""
        accesses = self.accesses if miss.ndim == 1 else self.accesses[:, None]
        return self.ops(miss, wait_us) * accesses * miss

    def _ops_per_wait(self, miss: FloatArray, wait_us: float) -> FloatArray:
        """The derivative of `ops` with respect to the wait, shape (N,); never positive."""
        ops = self.ops(miss, wait_us)
        slope: FloatArray = -(ops**2) * self.per_wait * miss / self.scale
        return slope

    def served_iops(self, wait_us: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Device reads per second at which a read waits so long, and the derivative.

        It is `Device`'s formula, solved for the reads. Without queueing below the capacity it is
        the capacity at any wait.
        """
        if self.queueing_us <= 0:
            return np.full_like(wait_us, self.capacity_iops), np.zeros_like(wait_us)
        share = self.queueing_us / (wait_us + self.queueing_us)
        return self.capacity_iops * (1 - share), self.capacity_iops * share**2 / self.queueing_us

    def wait_us(self, miss: FloatArray) -> float:
        """How long a read waits, in microseconds, while tenants miss at `miss`, (N,)."""
        return float(self.waits_us(miss[:, None])[0])

    def waits_us(self, miss: FloatArray) -> FloatArray:
        """How long a read waits, (K,), while tenants miss at each column of `miss`, (N, K).

        Reads decrease with the wait and are convex in it, and what is served rises and is concave,
        so Newton steps from 0 never overshoot.
        """
        waits = np.zeros(miss.shape[1])
        accesses, scale, base = self.accesses[:, None], self.scale[:, None], self.base[:, None]
        per_miss, per_wait = self.per_miss[:, None], self.per_wait[:, None]
        for _ in range(NEWTON_STEPS):
            ops = scale / (base + (per_miss + per_wait * waits) * miss)
            reads = ops * accesses * miss
            served, more = self.served_iops(waits)
            asked = reads.sum(axis=0)
            excess = asked - served
            relief = (ops * per_wait * miss / scale * reads).sum(axis=0)
            is_found = excess <= 1e-9 * np.minimum(self.capacity_iops, asked)
            if (is_found | (relief <= 0)).all():
                break
            steps = np.maximum(excess, 0.0) / np.maximum(relief + more, 1e-300)
            waits += np.where(relief > 0, steps, 0.0)
        return waits

    def wait_error_us(self, miss: FloatArray, off: FloatArray, wait_us: float) -> float:
        """By how much the wait may be off if miss ratios (N,) may be off by `off`, (N,).

        Reads that are more or fewer than predicted are independent errors, which the wait makes up
        for. The result is 0 if nothing waits for the device.
        """
        reads = self.device_iops(miss, wait_us)
        more = self.device_iops(np.minimum(miss + off, 1.0), wait_us) - reads
        fewer = reads - self.device_iops(np.maximum(miss - off, 0.0), wait_us)
        relief = -float((self._ops_per_wait(miss, wait_us) * self.accesses * miss).sum())
        relief += float(self.served_iops(np.array(wait_us))[1])
        if wait_us <= 0 or relief <= 0:
            return 0.0
        return float(np.linalg.norm(np.maximum(more, fewer))) / relief

    def read_price(self, miss: FloatArray, wait_us: float, weight: FloatArray) -> float:
        """The cost to all tenants of one more device read per second.

        `weight`, (N,), is what an operation per second counts. One more read lengthens the wait
        until other reads give way. The result is 0 if nothing waits for the device.
        """
        if wait_us <= 0:
            return 0.0
        slower = self._ops_per_wait(miss, wait_us)
        relief = float((slower * self.accesses * miss).sum())
        more = float(self.served_iops(np.array(wait_us))[1])
        return float((weight * slower).sum()) / (relief - more) if relief < 0 else 0.0


def tenant_throughput(tenant: Tenant, device: Device, kind: ModelKind) -> TenantThroughput:
    """The model `kind` of one tenant on `device`."""
    accesses = tenant.demand.accesses_per_op
    if kind is ModelKind.IOPS_OVER_MISS_RATIO:
        iops = max(tenant.indicators.device_iops, IOPS_FLOOR)
        return TenantThroughput(iops / accesses, MISS_RATIO_FLOOR, 1.0, 0.0, accesses)
    return TenantThroughput(
        scale=US_PER_S * tenant.demand.concurrency,
        base=tenant.demand.service_us,
        per_miss=accesses * device.miss_cost_us,
        per_wait=accesses,
        accesses=tenant.demand.reads_per_op or accesses,
    )


def throughput_model(tenants: Sequence[Tenant], device: Device, kind: ModelKind) -> Throughput:
    """The model `kind` of `tenants` on `device`."""
    each = [tenant_throughput(tenant, device, kind) for tenant in tenants]
    terms = np.array(each, dtype=np.float64).reshape(-1, len(TenantThroughput._fields))
    # A copy, so that each term is contiguous.
    scale, base, per_miss, per_wait, accesses = terms.T.copy()
    return Throughput(
        scale, base, per_miss, per_wait, accesses, device.capacity_iops, device.queueing_us
    )
