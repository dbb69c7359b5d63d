# SPDX-License-Identifier: Apache-2.0
"""Senpai's control law, written from its description (TMO, ASPLOS '22, section 3.3).

In every period a container is asked to give up

    memory x ratio x max(0, 1 - pressure / threshold)

where the pressure is the share of the period in which some task of the container waited for memory
(PSI `some` of pages that were evicted and read again). At or above the threshold nothing is taken.

The original asks the kernel to reclaim and sets no limit, so a container grows again by the pages
that it reads. Here the limit of a simulated tenant stands for its memory. Before anything is taken
in a period, the limit rises by the pages that were missed, up to the tenant's first memory.
"""

from dataclasses import dataclass

from cachepilot.sizes import PAGE_BYTES, pages_up
from cachepilot.v1 import session_pb2 as wire

PERIOD_S = 6.0
MEMORY_THRESHOLD = 0.001
"""Share of the time that tasks wait for memory, as published."""
RATIO = 0.01
"""Share of the memory in a period: the largest value published, 20 times the usual.

It determines how soon the law converges, not where. Minutes of a simulated node stand for hours of
a real one.
"""


@dataclass
class _Known:
    first_bytes: int
    time_us: int
    memory_us: int
    misses: int


class Senpai:
    """The law for all tenants of one node; `rig.play` takes `plan` as an argument."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def plan(self, seen: wire.Snapshot, plan: wire.Plan) -> wire.Plan:
        """Replace the limits that the controller planned by those of the law."""
        del plan.actions[:]
        for one in seen.tenants:
            known = self._known.get(one.cgroup)
            if known is None:
                self._known[one.cgroup] = _read(one, seen.time_us, one.limit_bytes)
            elif seen.time_us - known.time_us >= PERIOD_S * 1e6:
                now = _read(one, seen.time_us, known.first_bytes)
                self._known[one.cgroup] = now
                limit_bytes = self._next(one, known, now)
                if limit_bytes != one.limit_bytes:
                    plan.actions.add(
                        cgroup=one.cgroup, cgroup_id=one.cgroup_id, limit_bytes=limit_bytes
                    )
        return plan

    def _next(self, one: wire.Tenant, before: _Known, now: _Known) -> int:
        passed_us = now.time_us - before.time_us
        rest = 1 - (now.memory_us - before.memory_us) / passed_us / MEMORY_THRESHOLD
        # Before the page cache is full, nothing is evicted: the pages missed fit within the limit.
        room = max(0, one.limit_bytes - one.current_bytes)
        grown = one.limit_bytes + max(0, (now.misses - before.misses) * PAGE_BYTES - room)
        held = min(grown, before.first_bytes)
        return max(pages_up(int(held * (1 - RATIO * max(0.0, rest)))), one.floor_bytes)


def _read(one: wire.Tenant, time_us: int, first_bytes: int) -> _Known:
    counters = one.counters
    return _Known(
        first_bytes,
        time_us,
        counters.memory_stall_us_total,
        counters.misses_total,
    )
