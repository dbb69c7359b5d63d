# SPDX-License-Identifier: Apache-2.0
"""What the model says of one tenant at one setting."""

from cachepilot.domain.decisions import Reading
from cachepilot.domain.snapshot import Demand, Device
from cachepilot.domain.units import US_PER_S
from cachepilot.sense.collect import Seen


def ops_at(demand: Demand, device: Device, wait_us: float, miss_ratio: float) -> float:
    """Operations per second while a device read waits `wait_us`; see `model.throughput`."""
    cost_us = device.miss_cost_us + wait_us
    waits = demand.accesses_per_op * miss_ratio * cost_us
    return US_PER_S * demand.concurrency / (demand.service_us + waits)


def predicted(
    seen: Seen, device: Device, wait_us: float, policy: str, limit_bytes: int
) -> Reading | None:
    """Throughput and miss ratio by the curve of `policy`; None when there is none."""
    miss = None if seen.measured is None else seen.measured.miss_at(policy, limit_bytes)
    if miss is None:
        return None
    return Reading(ops_at(seen.tenant.demand, device, wait_us, miss), miss)
