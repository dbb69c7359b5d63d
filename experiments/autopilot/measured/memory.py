# SPDX-License-Identifier: Apache-2.0
"""Four tenants of different skew share a fixed memory: HOLPACA's Figures 5 and 6, scaled.

`static` is the equal split that never changes. `annealing` and `optimal` are the allocators, with
everything else the same. Policies change only on the side of `optimal`. HOLPACA is about the sum of
throughputs. That is therefore the goal, and no tenant has a share of its own throughput to keep.
"""

from collections.abc import Sequence
from statistics import median

from experiments.autopilot.measured.record import Run
from experiments.autopilot.measured.world import MIB, Side, Tenant, World, objectives
from experiments.shared.rows import Row

from cachepilot.domain.objectives.objective import Goal
from cachepilot.sense.counterfactuals import DEFAULT

NAME = "memory"
TENANTS = {
    "zipf12": "--workload c --zipf 1.2",
    "zipf09": "--workload c --zipf 0.9",
    "zipf06": "--workload c --zipf 0.6",
    "uniform": "--workload uniform",
}
FLOOR = "1536KiB"
GOALS = {"static": 1.5, "annealing": 1.05}


def world() -> World:
    """Return the three sides; four databases of 10 MiB share 12 MiB.

    No database fits as a whole, so that misses decide. A database that fits hardly waits for the
    disk any more, and is limited by the emulated processor.
    """

    def steered(allocator: str) -> Side:
        keys: dict[str, object] = {"memory_min": FLOOR, "keep": 0}
        keys |= {} if allocator == "optimal" else {"policies": DEFAULT}
        stated = objectives(allocator, {"*": keys}, Goal.TOTAL_THROUGHPUT)
        return Side(allocator, 280, 60.0, stated, {"allocator": allocator})

    return World(
        experiment=NAME,
        tenants=[Tenant(name, "ycsb", words) for name, words in TENANTS.items()],
        sides=(Side("static", 60, 35.0), steered("annealing"), steered("optimal")),
        budget_bytes=12 * MIB,
        iops=150,
        records=10_000,
    )


def total_ops(run: Run, side: str) -> float:
    """Return steady operations per second of all tenants together."""
    return sum(run.ops(side, tenant) for tenant in TENANTS)


def over_floor(run: Run) -> float:
    """Return the least limit of any tenant over its floor, on both sides with an allocator."""
    return min(
        float(look["limit_bytes"]) / float(look["floor_bytes"])
        for side in ("annealing", "optimal")
        for tenant in TENANTS
        for look in run.looks(side, tenant)
        if look["floor_bytes"] > 0
    )


def rows(runs: Sequence[Run]) -> list[Row]:
    """Return `autopilot.memory.*`, with one value per run. Goals apply to the worst run."""
    ours = [total_ops(run, "optimal") for run in runs]
    found: list[Row] = []
    for side, goal in GOALS.items():
        theirs = [total_ops(run, side) for run in runs]
        found += Row.worst_of(
            f"autopilot.memory.vs_{side}",
            [mine / other for mine, other in zip(ours, theirs, strict=True)],
            "ratio",
            better="higher",
            goal=goal,
            reference=f"{side}, operations per second of four tenants together",
            reference_value=median(theirs),
        )
    found += Row.worst_of(
        "autopilot.memory.limit_over_floor",
        [over_floor(run) for run in runs],
        "ratio",
        better="higher",
        goal=1.0,
        reference="the least limit of any tenant at any time over its floor",
    )
    return found
