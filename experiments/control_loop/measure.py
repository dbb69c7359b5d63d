# SPDX-License-Identifier: Apache-2.0
"""Measures plans: their distance from the referee's optimum, and the time to make them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cachepilot.domain.objectives.objective import Goal, Objective, Objectives
from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.config import Config

from .instances import snapshot
from .referee import optimum
from .timing import Timing

EVERYBODY = Objectives((Objective("*"),))
MOVEMENT_SHARES = (0.05, 0.2, 1.0)
TENANTS = (2, 16)
POLICIES = (1, 5)
READS_PER_TENANT = 1000.0
"""Reads per second and tenant that a device can serve when it is the bottleneck."""


@dataclass(frozen=True)
class Gap:
    """One instance: how far the plan of each allocator is below the optimum, in percent of it."""

    gap_pct: dict[str, float]
    referee_gap_pct: float


def _from_the_start(seen: Snapshot) -> Snapshot:
    """Return the snapshot with the present limits as first memory, to which `keep` shares refer."""
    tenants = tuple(replace(one, first_bytes=one.limit_bytes) for one in seen.tenants)
    return replace(seen, tenants=tenants)


def gap(
    instance: int,
    allocators: Sequence[str],
    steps: int,
    goal: Goal = Objectives.goal,
    keep: float = 0.0,
) -> Gap:
    """Plan one random instance, also by the referee with `steps` even sizes per tenant.

    With `keep`, every tenant keeps that share of its throughput at its present limit. A negative
    gap is a plan that is better than what the referee's sizes allow.
    """
    random = np.random.default_rng(instance)
    tenants = int(random.integers(TENANTS[0], TENANTS[1] + 1))
    policies = int(random.integers(POLICIES[0], POLICIES[1] + 1))
    config = Config(movement_share=float(random.choice(MOVEMENT_SHARES)))
    seen = snapshot(instance, tenants, policies)
    if keep:
        seen = _from_the_start(seen)
    asked = Objectives((Objective("*", keep=keep),), goal)
    best = optimum(seen, asked, config, steps)
    gaps = {}
    for name in allocators:
        chosen = Config(allocator=name, movement_share=config.movement_share)
        found = plan(seen, asked, chosen)
        gaps[name] = 100 * (best.value - found.objective) / best.value
    between = 100 * (best.bound - best.value) / best.value
    return Gap(gaps, between)


def timings(tenants: int, policies: int, runs: int) -> dict[bool, Timing]:
    """Time plans of `runs` random nodes after one that warms up, by whether the device is short."""
    found = {is_short: Timing([], []) for is_short in (False, True)}
    for run in range(runs + 1):
        seen = _from_the_start(snapshot(1000 + run, tenants, policies))
        short = replace(seen.device, capacity_iops=tenants * READS_PER_TENANT)
        for is_short, times in found.items():
            now = replace(seen, device=short) if is_short else seen
            wall_start, cpu_start = time.perf_counter(), time.process_time()
            plan(now, EVERYBODY, Config())
            cpu_ms = (time.process_time() - cpu_start) * 1e3
            wall_ms = (time.perf_counter() - wall_start) * 1e3
            if run > 0:
                times.cpu_ms.append(cpu_ms)
                times.wall_ms.append(wall_ms)
    return found
