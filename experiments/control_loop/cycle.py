# SPDX-License-Identifier: Apache-2.0
"""Measures the time of a whole cycle, from the bytes of a snapshot to a plan and stored decisions.

It uses the real loop, set up as in the controller's process. The node obeys policies and limits, so
trials of changes run meanwhile. A full cycle also includes the work that follows once the plan has
been sent.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cachepilot.api.main import collect_rarely
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.fleet.config import ControllerConfig
from cachepilot.fleet.fleet import Fleet
from cachepilot.node.loop import NodeLoop
from cachepilot.store.store import Store
from cachepilot.v1 import session_pb2 as wire

from .node import Node
from .timing import Timing

WARM_UP_CYCLES = 4


@dataclass(frozen=True)
class Cycles:
    """Times of `cycle` alone, and of full cycles, which include the work that follows."""

    cycle: Timing = field(default_factory=lambda: Timing([], []))
    full: Timing = field(default_factory=lambda: Timing([], []))


@contextmanager
def looped(hello: wire.Hello) -> Iterator[tuple[NodeLoop, Store]]:
    """Yield the loop of a node as in the controller's process, with its store in a new file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "controller.db"
        store = Store(path)
        store.set_objectives(Objectives((Objective("*"),)))
        loop = Fleet(ControllerConfig(store=path), store, lambda _: None).join("node")
        loop.begin(hello)
        yield loop, store
        store.close()


def step(loop: NodeLoop, node: Node, found: Cycles) -> None:
    """Run one cycle and the work that follows.

    The work is the fit, the store, records, and the report for operators.
    """
    raw = node.report().SerializeToString()
    wall_start, cpu_start = time.perf_counter(), time.process_time()
    plan = loop.cycle(wire.Snapshot.FromString(raw))
    found.cycle.cpu_ms.append((time.process_time() - cpu_start) * 1e3)
    found.cycle.wall_ms.append((time.perf_counter() - wall_start) * 1e3)
    loop.after()
    report = loop.report
    found.full.cpu_ms.append((time.process_time() - cpu_start) * 1e3)
    found.full.wall_ms.append((time.perf_counter() - wall_start) * 1e3)
    if report is None or report.plan is None:
        raise RuntimeError("no plan" if report is None else report.problem)
    loop.acknowledge(node.obey(plan))


def cycles(tenants: int, policies: int, runs: int) -> Cycles:
    """Time `runs` cycles of one random node, after some cycles that warm up."""
    collect_rarely()
    node, found = Node(1000, tenants, policies), Cycles()
    with looped(node.hello) as (loop, _):
        for _ in range(WARM_UP_CYCLES):
            step(loop, node, Cycles())
        for _ in range(runs):
            step(loop, node, found)
    return found
