# SPDX-License-Identifier: Apache-2.0
"""Tenants under the memory rules alone. Curves may be wrong; limits take effect at once."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.memory import asked
from cachepilot.decide.memory import step as memory
from cachepilot.decide.memory.interval import MemoryInterval, MemoryTenant
from cachepilot.decide.memory.state import MemoryChange, MemoryState
from cachepilot.domain.decisions import Decision, Event, Reading

MIB = 1 << 20
CONFIG = DecideConfig()


def worth(limit_mib: float, knee_mib: float) -> float:
    """Return the log throughput of a tenant whose misses grow in proportion below a knee."""
    miss = max(0.02, 1 - limit_mib / knee_mib)
    return -math.log(0.05 + miss)


@dataclass
class Tenant:
    """A tenant with its knee at `knee_mib`. Its curve says `told_mib`.

    With `needs_mib` the tenant has enough.
    """

    knee_mib: float
    told_mib: float
    limit_mib: float = 128.0
    planned_mib: float = 128.0
    needs_mib: float = 1000.0
    changes: dict[str, object] = field(default_factory=dict)

    def seen(self, noise: float) -> MemoryTenant:
        reading = Reading(1000.0, 0.5)
        found = MemoryTenant(
            cgroup_id=1,
            policy="default",
            limit_bytes=int(self.limit_mib * MIB),
            planned_bytes=int(self.planned_mib * MIB),
            worth_now=worth(self.limit_mib, self.told_mib),
            worth_planned=worth(self.planned_mib, self.told_mib),
            worth_measured=worth(self.limit_mib, self.knee_mib) + noise,
            worth_at=lambda limit: worth(limit / MIB, self.told_mib),
            whole=1.0,
            measured=reading,
            predicted=reading,
            miss_at=float,
            ops_at=lambda _, miss: miss,
            worth_of=lambda _, limit: worth(limit / MIB, self.told_mib),
            lacks_at=lambda limit: max(0.0, 1 - limit / MIB / self.needs_mib),
            error_at=lambda _: 0.01,
            reread_at=lambda limit: max(0.0, self.limit_mib - limit / MIB) * 256 * 500e-6,
            spare_bytes=int(self.limit_mib * MIB),
        )
        return replace(found, **self.changes)  # type: ignore[arg-type]


class Node:
    """Tenants whose limits follow the wanted limits at once."""

    def __init__(self, *tenants: Tenant, seed: int | None = None, scatter: float = 0.0) -> None:
        self.tenants = {f"/{i}": one for i, one in enumerate(tenants)}
        self.state, self.time_s, self.told = MemoryState(), 0.0, list[Decision]()
        self._random, self._scatter = np.random.default_rng(seed), scatter

    def run(self, intervals: int, **changes: object) -> list[Event]:
        """Run so many intervals, and return the events of changes of tenant `/0`."""
        before = len(self.told)
        for _ in range(intervals):
            self.time_s += 1
            noise = self._random.normal(0, self._scatter, len(self.tenants))
            seen = MemoryInterval(
                self.time_s,
                1.0,
                {
                    name: one.seen(float(off))
                    for (name, one), off in zip(self.tenants.items(), noise, strict=True)
                },
                16 * MIB,
                "proportional_fairness",
            )
            seen = replace(seen, **changes)  # type: ignore[arg-type]
            self.told += memory.step(self.state, seen, CONFIG)
            for name, limit in asked.wanted(self.state, seen).items():
                self.tenants[name].limit_mib = limit / MIB
        return [one.event for one in self.told[before:] if one.cgroup == "/0"]

    def begin(self) -> MemoryChange:
        """Run until a change begins, and return it."""
        for _ in range(10_000):
            if self.state.change is not None:
                return self.state.change
            self.run(1)
        raise AssertionError("no change of memory begins")


def pair(told_mib: float = 400.0, knee_mib: float = 400.0) -> tuple[Tenant, Tenant]:
    """Return a tenant that gains by memory, and one from which the plan takes it."""
    taker = Tenant(400.0, told_mib, planned_mib=192.0)
    return taker, Tenant(40.0 if knee_mib == 400.0 else knee_mib, 40.0, planned_mib=64.0)
