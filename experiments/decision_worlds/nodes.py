# SPDX-License-Identifier: Apache-2.0
"""Plays nodes in virtual time: twenty tenants each, under the real control loop."""

import os
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from experiments.control_loop.plant import MIB, Plant, PlantTenant
from experiments.control_loop.world import World
from experiments.decision_worlds.interruptions import Interruptions
from experiments.decision_worlds.tenants import (
    MISS_COST_US,
    Drawn,
    Kind,
    begin_regime,
    tenant,
)

from cachepilot.api.shapes.views import DecisionView
from cachepilot.domain.decisions import Event
from cachepilot.sense.counterfactuals import DEFAULT

TENANTS = 20
SIZES = (8 * MIB, 512 * MIB)
START_S = 1e6
HISTORY = 1000


@dataclass(frozen=True)
class Node:
    """One run: `TENANTS` tenants of `kinds` in turn, each drawn with its own seed."""

    seed: int
    kinds: tuple[Kind, ...]
    seconds: int
    interrupted: str = ""

    def kind(self, index: int) -> Kind:
        """Return the kind of a tenant."""
        return self.kinds[index % len(self.kinds)]

    def drawn(self, index: int) -> Drawn:
        """Return a tenant's drawn parameters."""
        return Drawn.of(self.seed * TENANTS + index)


@dataclass
class Course:
    """One tenant's run.

    `policies` are those in force in each interval, `last` the one after the end.

    `done` counts operations. `default_done` and `best_done` are the operations that the default,
    and the best policy of each regime without the cost of swaps, would have done in the same run.
    """

    kind: Kind
    policies: list[str] = field(default_factory=list)
    last: str = DEFAULT
    decisions: list[DecisionView] = field(default_factory=list)
    done: float = 0.0
    default_done: float = 0.0
    best_done: float = 0.0
    drawn: Drawn | None = None

    @property
    def seconds(self) -> int:
        """Length of the run."""
        return len(self.policies)

    @property
    def changes(self) -> int:
        """How often the policy in force changed."""
        return sum(now != before for before, now in pairwise([*self.policies, self.last]))

    @property
    def changes_away(self) -> int:
        """How often a policy other than the default was put in force."""
        names = [*self.policies, self.last]
        return sum(now not in (before, DEFAULT) for before, now in pairwise(names))

    @property
    def loss_pct(self) -> float:
        """Loss of throughput compared with the default, in percent."""
        return 100 * (1 - self.done / self.default_done)

    def told(self, event: Event) -> list[DecisionView]:
        """Return the decisions with this event, in order."""
        return [one for one in self.decisions if one.event == event]


def _plant(node: Node) -> Plant:
    tenants = [tenant(node.drawn(i), node.kind(i), i) for i in range(TENANTS)]
    budget = sum(one.limit_bytes for one in tenants)
    return Plant(tenants, budget, SIZES, miss_cost_us=MISS_COST_US, seed=node.seed, time_s=START_S)


def _begin_interval(node: Node, plant: Plant, interval: int) -> None:
    for i, one in enumerate(plant.tenants):
        kind = node.kind(i)
        if interval and kind.number(interval) != kind.number(interval - 1):
            begin_regime(one, node.drawn(i), kind, interval)


def _ops(one: PlantTenant, miss: float) -> float:
    """Return the operations per second of a tenant at a miss ratio."""
    return 1e6 * one.threads / (one.service_us + miss * MISS_COST_US)


class _Run:
    """A node during its run: what each tenant did, and would have done without a controller."""

    def __init__(self, node: Node) -> None:
        self.node, self.plant = node, _plant(node)
        self.courses = [Course(node.kind(i), drawn=node.drawn(i)) for i in range(TENANTS)]
        self._misses = [node.drawn(i).miss for i in range(TENANTS)]
        self._interruptions = Interruptions(node.interrupted, node.seed)

    def interval(self, world: World, interval: int) -> None:
        """Play one second. The same random variation of throughput applies to all policies."""
        _begin_interval(self.node, self.plant, interval)
        self._interruptions.begin(world, interval)
        for course, one in zip(self.courses, self.plant.tenants, strict=True):
            course.policies.append(one.policy)
        if self._interruptions.is_silent(interval):
            self.plant.pass_time()
        else:
            world.run(1)
        tenants = zip(self.courses, self.plant.tenants, self._misses, strict=True)
        for course, one, miss in tenants:
            scale = (one.done - course.done) / self.plant.ops(one)
            course.done = one.done
            course.default_done += scale * _ops(one, miss)
            now = course.kind.at(interval)
            least = min(0.0, *(effect.true for effect in now.values()))
            course.best_done += scale * _ops(one, miss + least)


def play(node: Node) -> list[Course]:
    """Return every tenant's run. The same node gives the same result."""
    run = _Run(node)
    limits = [one.limit_bytes for one in run.plant.tenants]
    with tempfile.TemporaryDirectory(prefix="cachepilot-worlds-") as folder:
        world = World(Path(folder), run.plant)
        for interval in range(node.seconds):
            run.interval(world, interval)
        for course, one in zip(run.courses, run.plant.tenants, strict=True):
            course.last = one.policy
            course.decisions = world.service.history(one.cgroup, limit=HISTORY)[::-1]
        world.store.close()
    if limits != [one.limit_bytes for one in run.plant.tenants]:
        raise RuntimeError("memory moved, although this world gives no tenant a use for it")
    return run.courses


def play_all(nodes: Iterable[Node]) -> list[list[Course]]:
    """Play the nodes on all cores, and return the tenants of each."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(play, nodes))
