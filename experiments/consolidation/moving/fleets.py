# SPDX-License-Identifier: Apache-2.0
"""Fleets of recorded programs in virtual time, and steps that their scripts share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from experiments.autopilot_simulated.tenants import (
    PAGE_BYTES,
    Keys,
    name_of,
    of_seed,
    pages_of,
    traces,
)
from experiments.consolidation.moving.processes import Fleet, Node, Tenant
from experiments.consolidation.moving.virtual import World

from cachepilot import simulator
from cachepilot.api.shapes.questions import Drain as DrainView
from cachepilot.domain.consolidation import Drain, Move
from cachepilot.domain.objectives.objective import Objective, Objectives

PER_NODE = 3
SERVICE_US, READ_US, CONCURRENCY, ACCESSES = 1000.0, 400.0, 2, 2
MARGIN_PAGES = 256


@dataclass(frozen=True)
class Program:
    """The pages that a tenant reads in turn, and memory for all of them."""

    name: str
    keys: Keys
    limit_bytes: int


def programs(seed: int, nodes: int) -> Iterator[Program]:
    """Yield each recorded program for as many tenants as needed, each starting at another point."""
    recorded = traces(None)
    for number in range(nodes * PER_NODE):
        trace = recorded[number % len(recorded)]
        yield Program(
            f"{name_of(trace)}{number // len(recorded)}",
            of_seed(simulator.trace_keys(str(trace)), 1000 * seed + number),
            (pages_of(trace) + MARGIN_PAGES) * PAGE_BYTES,
        )


def fleet_of(
    seed: int,
    folder: Path,
    tenants: Sequence[Tenant],
    nodes: int,
    options: Mapping[str, object] | None = None,
) -> Fleet:
    """Return nodes of one size with tenants at random.

    Each node has memory for all of its own tenants.

    `options` are those of `[consolidation]`.
    """
    order = np.random.default_rng(seed).permutation(len(tenants))
    homes = [[tenants[i] for i in order[n::nodes]] for n in range(nodes)]
    budget = max(sum(one.limit_bytes for one in home) for home in homes)
    found = [
        Node(f"node{i}", home, budget, read_us=READ_US, seed=10 * seed + i)
        for i, home in enumerate(homes)
    ]
    return Fleet(folder, found, interval_ms=1000, pace="virtual", options=options or {})


def seconds(count: int) -> Iterator[None]:
    """Let this many seconds pass."""
    for _ in range(count):
        yield


def drain_of(shown: DrainView) -> Drain:
    """Convert a drain as the API shows it to one that a rollout takes."""
    told = Drain(**vars(shown))
    return replace(told, moves=tuple(Move(**vars(one)) for one in told.moves))


def state_slos(world: World, does_ops: Mapping[str, float], share: float) -> None:
    """State an SLO for two tenants in three: this share of the throughput of each."""
    stated = tuple(
        Objective(cgroup, throughput_ops=share * ops)
        for i, (cgroup, ops) in enumerate(does_ops.items())
        if i % 3
    )
    world.service.set_objectives(Objectives((*stated, Objective("*"))))
