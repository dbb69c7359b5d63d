# SPDX-License-Identifier: Apache-2.0
"""Compare the packing of small fleets with the optimum, and time the packing of a large fleet."""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from experiments.placement.fleets import all_at_once, day_of, fleet_of
from experiments.shared import table
from experiments.shared.rows import ROOT, Row

from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.consolidation.consolidate import consolidate, places_of
from cachepilot.plan.consolidation.least.past import PastByTenant
from cachepilot.plan.consolidation.packing import exact
from cachepilot.plan.consolidation.packing.best_fit import BestFit
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds
from cachepilot.plan.consolidation.packing.options import Options
from cachepilot.plan.consolidation.packing.pack import loads_of
from cachepilot.plan.consolidation.packing.rules import Rules
from cachepilot.plan.problem.config import Config

EXPERIMENT = Path(__file__).resolve().parent
COMMAND = "experiments/placement/run"
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Placement: results

Written by `experiments/placement/run` from `results.json`; README.md says what is measured.
"""
EVERYBODY = Objectives((Objective("*"),))
SECONDS_MAX = 10.0


def small(seeds: int) -> list[Row]:
    """Compare the nodes that the heuristic drains with the exact program's, for small fleets."""
    drained, best, gap, seconds = 0, 0, 0, []
    for seed in range(seeds):
        capacity = (1e12, 20_000.0)[seed % 2]
        places = places_of(fleet_of(seed, 6, 4, capacity), EVERYBODY, Config())
        needs = FleetNeeds.of(places)
        own = [needs.rows(node) for node in range(len(places))]
        rules = Rules.of(places, own, [()] * len(places))
        loads = loads_of(needs, Options())
        begun = time.monotonic()
        found = exact.solve(needs, loads, rules)
        seconds.append(time.monotonic() - begun)
        if found is None:
            continue
        count = len(BestFit(needs, loads, rules, 0).pack().drained)
        drained += count
        best += max(len(found.drained), count)
        gap += found.most - max(len(found.drained), count)
    name = "placement.small"
    return [
        Row(f"{name}.heuristic_share", drained / max(best, 1), "ratio", "higher", 0.9, runs=seeds),
        Row(f"{name}.not_proven", gap / max(best, 1), "ratio", runs=seeds),
        Row.of_runs(f"{name}.program_s", seconds, "s"),
    ]


def _answer(seed: int, nodes: int, tenants: int, capacity_iops: float) -> tuple[float, float]:
    """Return the processor seconds of the whole answer, and the share of memory left unused."""
    fleet = fleet_of(seed, nodes, tenants, capacity_iops)
    begun = time.process_time()
    found = consolidate(fleet, EVERYBODY, Config())
    seconds = time.process_time() - begun
    gone = {drain.node for drain in found.drains}
    left = sum(one.node.budget_bytes for one in fleet if one.node.name not in gone)
    return seconds, 1 - sum(row.least_bytes for row in found.tenants) / left


def _seconds_and_left(fleet: Sequence[Snapshot], before: PastByTenant) -> tuple[float, int]:
    """Return the processor seconds of the whole answer, and the number of nodes that stay."""
    begun = time.process_time()
    found = consolidate(fleet, EVERYBODY, Config(), before=before)
    return time.process_time() - begun, len(fleet) - len(found.drains)


def with_a_day(nodes: int, tenants: int, seeds: int) -> list[Row]:
    """Measure the cost of room for the needs of a day: time, and nodes that stay."""
    seconds, against_peaks, against_now = [], [], []
    for seed in range(seeds):
        fleet = fleet_of(seed, nodes, tenants, 1e12)
        before = day_of(seed, fleet)
        spent, left = _seconds_and_left(fleet, before)
        seconds.append(spent)
        against_peaks.append(left / _seconds_and_left(fleet, all_at_once(before))[1])
        against_now.append(left / _seconds_and_left(fleet, {})[1])
    name = f"placement.{nodes}x{tenants}.day"
    return [
        *Row.worst_of(f"{name}.cpu_s", seconds, "s", goal=SECONDS_MAX),
        Row.of_runs(f"{name}.nodes_against_peaks", against_peaks, "ratio"),
        Row.of_runs(f"{name}.nodes_against_now", against_now, "ratio"),
    ]


def large(nodes: int, tenants: int, seeds: int) -> list[Row]:
    """Measure a large fleet: time with busy and idle devices, and memory unused with idle ones."""
    busy = [_answer(seed, nodes, tenants, 20_000.0) for seed in range(seeds)]
    idle = [_answer(seed, nodes, tenants, 1e12) for seed in range(seeds)]
    seconds = [one[0] for one in (*busy, *idle)]
    name = f"placement.{nodes}x{tenants}"
    return [
        *Row.worst_of(f"{name}.cpu_s", seconds, "s", goal=SECONDS_MAX),
        Row.of_runs(f"{name}.memory_unused", [one[1] for one in idle], "ratio", goal=0.1),
    ]


def main() -> int:
    """Return 0 when everything has been measured."""
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; results go to build/")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    quick = arguments.quick
    out = ROOT / "build" / "placement" / "quick" if quick else EXPERIMENT
    size = (100, 20, 1) if quick else (1000, 20, 3)
    rows = [*small(4 if quick else 40), *large(*size), *with_a_day(*size)]
    table.publish(out, HEAD, rows, COMMAND, lambda _: True)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
