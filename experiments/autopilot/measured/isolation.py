# SPDX-License-Identifier: Apache-2.0
"""YCSB C beside a search of files, each in a cgroup: cache_ext's Figure 11.

Both have the same memory on every side, so that only policies differ: the kernel's own, those that
an expert would choose by hand, and those that the autopilot chooses without any information.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from experiments.autopilot.measured.record import Run
from experiments.autopilot.measured.world import MIB, Side, Tenant, World, objectives
from experiments.shared.rows import Row

NAME = "isolation"
TAILORED = {"ycsb": "lfu", "search": "mru"}
VS_TAILORED = 0.95
GAINS_PCT = {"ycsb": 40.0, "search": 70.0}


def world() -> World:
    """Return the sides default, tailored and autopilot, in this order.

    Of its 16 MiB the search has some 11.5 MiB for file pages, and the tree is a tenth larger. The
    search pattern, repeated words, takes the processor some time, as with a tree that is cached.
    """
    return World(
        experiment=NAME,
        tenants=(
            Tenant("ycsb", "ycsb", "--workload c --threads 2 --seed 1"),
            Tenant("search", "search", r"--threads 2 -P \b(\w+)\s+\1\b"),
        ),
        sides=(
            Side("default", 65, 40.0),
            Side("tailored", 75, 40.0, pins=TAILORED),
            Side(
                "autopilot",
                300,
                45.0,
                objectives=objectives("autopilot", {"*": {}}),
                planner={"movement_share": 0.0},
            ),
        ),
        budget_bytes=32 * MIB,
        iops=150,
        records=40_000,
    )


def ops(run: Run, side: str, tenant: str) -> float:
    """Return steady operations per second.

    For the search these are read calls, since a pass takes seconds.
    """
    return run.reads(side, tenant) if tenant == "search" else run.ops(side, tenant)


def rows(runs: Sequence[Run]) -> list[Row]:
    """Return `autopilot.isolation.*`, with one value per run. Goals apply to the worst run."""
    found: list[Row] = []
    for tenant, gain_pct in GAINS_PCT.items():
        default = [ops(run, "default", tenant) for run in runs]
        tailored = [ops(run, "tailored", tenant) for run in runs]
        ours = [ops(run, "autopilot", tenant) for run in runs]
        found += [
            *Row.worst_of(
                f"autopilot.isolation.{tenant}_vs_tailored",
                [ours / theirs for ours, theirs in zip(ours, tailored, strict=True)],
                "ratio",
                better="higher",
                goal=VS_TAILORED,
                reference=f"{TAILORED[tenant]} by hand, operations per second",
                reference_value=median(tailored),
            ),
            *Row.worst_of(
                f"autopilot.isolation.{tenant}_gain_pct",
                [100 * (ours / theirs - 1) for ours, theirs in zip(ours, default, strict=True)],
                "%",
                better="higher",
                goal=gain_pct,
                reference="the kernel's default, operations per second",
                reference_value=median(default),
            ),
        ]
    found += Row.worst_of(
        "autopilot.isolation.seconds_to_policies",
        [settled_s(run) for run in runs],
        "s",
        reference="from the first access to the last change of a policy",
    )
    return found


def settled_s(run: Run) -> float:
    """Return seconds from the beginning of the autopilot's side to the last change of a policy."""
    begin_s = float(run.document["sides"]["autopilot"]["begin_s"])
    last = begin_s
    for tenant in GAINS_PCT:
        looks = run.looks("autopilot", tenant)
        for before, after in pairwise(looks):
            if before["policy"] != after["policy"]:
                last = max(last, after["time_s"])
    return last - begin_s
