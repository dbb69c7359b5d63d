# SPDX-License-Identifier: Apache-2.0
"""The time of a whole cycle: from the bytes of a snapshot to its plan, decisions stored.

By the real loop, set up as in the controller's process; policies and limits are obeyed, so that
trials run meanwhile.
"""

import tempfile
import time
from pathlib import Path

from cachepilot.api.main import collect_rarely
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.snapshot import Curves, Snapshot, Tenant
from cachepilot.fleet.config import ControllerConfig
from cachepilot.fleet.fleet import Fleet
from cachepilot.store.store import Store
from cachepilot.v1 import session_pb2 as wire

from .instances import snapshot
from .timing import Timing

WARM_UP_CYCLES = 4
CHANGED_SHARE = 8
"""One in so many tenants has new curves in each interval."""
INTERVAL_US = 1_000_000


def _curves(tenant: Tenant) -> Curves:
    if tenant.curves is None:
        raise RuntimeError(f"{tenant.cgroup}: has no curves")
    return tenant.curves


class Node:
    """A node of random tenants as an agent reports it, doing the same amount every interval."""

    def __init__(self, seed: int, tenants: int, policies: int) -> None:
        self._seen: Snapshot = snapshot(seed, tenants, policies)
        names = _curves(self._seen.tenants[0]).policies
        self.hello = wire.Hello(
            node="node",
            kind="simulated",
            capabilities=["policies", "limits", "curves"],
            policies=names,
            budget_bytes=self._seen.node.budget_bytes,
            incarnation=1,
        )
        self._interval = 0
        self._set: dict[str, wire.Action] = {}

    def report(self) -> wire.Snapshot:
        """The next snapshot; the first carries all curves, later ones those that changed."""
        self._interval += 1
        now = self._interval
        found = wire.Snapshot(
            sequence=now, time_us=now * INTERVAL_US, budget_bytes=self._seen.node.budget_bytes
        )
        found.device.idle_read_us = self._seen.device.miss_cost_us
        for i, one in enumerate(self._seen.tenants):
            action = self._set.get(one.cgroup, wire.Action())
            limit = action.limit_bytes or one.limit_bytes
            ops = int(one.indicators.throughput_ops)
            accesses = int(ops * one.demand.accesses_per_op) + 1
            changed = now == 1 or (i + now) % CHANGED_SHARE == 0
            generation = max(1, now - (i + now) % CHANGED_SHARE)
            told = found.tenants.add(
                cgroup=one.cgroup,
                cgroup_id=i + 1,
                policy=action.policy or one.policy,
                limit_bytes=limit,
                target_limit_bytes=limit,
                floor_bytes=one.floor_bytes,
                current_bytes=limit,
                file_bytes=limit,
                curves_generation=generation,
                trusted=True,
            )
            told.counters.accesses_total = accesses * now
            told.counters.misses_total = int(accesses * one.indicators.miss_ratio) * now
            told.counters.read_calls_total = ops * now
            told.counters.read_time_us_total = int(one.demand.concurrency * 1e6) * now
            told.counters.read_latency_total.extend([ops * now // 40] * 40)
            if changed:
                curves = _curves(one)
                told.curves.generation = generation
                told.curves.policies.extend(curves.policies)
                told.curves.sizes_bytes.extend(curves.sizes_bytes.tolist())
                told.curves.miss_ratio.extend(curves.miss_ratio.ravel().tolist())
                told.curves.error_bar.extend([0.01] * curves.miss_ratio.size)
        return found

    def obey(self, plan: wire.Plan) -> wire.Ack:
        """Does at once what a plan says."""
        ack = wire.Ack(epoch=plan.epoch)
        for action in plan.actions:
            held = self._set.setdefault(action.cgroup, wire.Action())
            held.policy = action.policy or held.policy
            held.limit_bytes = action.limit_bytes or held.limit_bytes
            ack.results.add(
                cgroup=action.cgroup,
                outcome=wire.Result.APPLIED,
                policy=held.policy,
                limit_bytes=held.limit_bytes,
            )
        return ack


def cycles(tenants: int, policies: int, runs: int) -> Timing:
    """Times `runs` cycles of one random node, after some that warm up."""
    found = Timing([], [])
    collect_rarely()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "controller.db"
        store = Store(path)
        store.set_objectives(Objectives((Objective("*"),)))
        fleet = Fleet(ControllerConfig(store=path), store, lambda _: None)
        loop, node = fleet.join("node"), Node(1000, tenants, policies)
        loop.begin(node.hello)
        for run in range(WARM_UP_CYCLES + runs):
            raw = node.report().SerializeToString()
            wall_start, cpu_start = time.perf_counter(), time.process_time()
            plan = loop.cycle(wire.Snapshot.FromString(raw))
            cpu_ms = (time.process_time() - cpu_start) * 1e3
            wall_ms = (time.perf_counter() - wall_start) * 1e3
            if loop.report is None or loop.report.plan is None:
                raise RuntimeError("no plan" if loop.report is None else loop.report.problem)
            loop.acknowledge(node.obey(plan))
            loop.after()
            if run >= WARM_UP_CYCLES:
                found.cpu_ms.append(cpu_ms)
                found.wall_ms.append(wall_ms)
        store.close()
    return found
