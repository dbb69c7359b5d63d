# SPDX-License-Identifier: Apache-2.0
"""Measure the named parts, all by default, and merge their rows into results.json."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

from experiments.shared import table
from experiments.shared.rows import ROOT, Row, commit, machine, merge

from cachepilot.domain.objectives.objective import Goal

from . import cycle, heap, measure
from .node import CANDIDATES
from .timing import Timing

EXPERIMENT = Path(__file__).resolve().parent
COMMAND = "experiments/control_loop/run"
POLICIES = 16
GOALS_MS = {32: 5.0, 2048: 250.0}
FULL_TENANTS, FULL_GOAL_MS, MEMORY_GOAL_KIB = 100, 5.0, 32.0
GAP_GOAL_PCT = 0.1
OTHERS = ("annealing", "proportional", "static")
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Quality and cost of the control loop: results

Written by `experiments/control_loop/run` from `results.json`; README.md says what is measured.
"""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    instances: int = 200
    runs: int = 7
    cycles: int = 60
    referee_steps: int = 64


def _gaps(sizes: Sizes) -> list[Row]:
    """Return the gap of the default allocator in the worst instance, and the median of every other.

    The other allocators are compared by total throughput, the objective that they are made for.
    """
    instances = range(sizes.instances)
    found = [
        measure.gap(instance, ("optimal", *OTHERS), sizes.referee_steps, Goal.TOTAL_THROUGHPUT)
        for instance in instances
    ]
    fair = [measure.gap(instance, ("optimal",), sizes.referee_steps) for instance in instances]
    both = [*found, *fair]
    gaps = [one.gap_pct["optimal"] for one in both]
    reference = "optimum by scipy.optimize.milp, gap of its own in percent"
    rows = [
        Row(
            "controller.gap_pct",
            max(gaps),
            "percent",
            goal=GAP_GOAL_PCT,
            reference=f"the worst instance, of either goal; {reference}",
            reference_value=max(one.referee_gap_pct for one in both),
            runs=len(gaps),
            spread=(min(gaps), max(gaps)),
        )
    ]
    for name in OTHERS:
        values = [one.gap_pct[name] for one in found]
        metric = f"controller.gap_pct.{name}"
        rows.append(Row.of_runs(metric, values, "percent", reference="the median instance"))
    return rows


def _time_row(metric: str, found: Timing, goal: float | None) -> Row:
    return Row.of_runs(
        metric,
        found.cpu_ms,
        "ms",
        goal=goal,
        reference="processor time; by the wall clock",
        reference_value=median(found.wall_ms),
    )


def _times(sizes: Sizes) -> list[Row]:
    rows = []
    for tenants, goal in GOALS_MS.items():
        for is_short, found in measure.timings(tenants, POLICIES, sizes.runs).items():
            metric = f"controller.plan_ms.{tenants}" + (".device_short" if is_short else "")
            rows.append(_time_row(metric, found, None if is_short else goal))
    return rows


def _cycles(sizes: Sizes) -> list[Row]:
    """Time cycles alone, and full cycles.

    A node of full cycles has as many policies as the autopilot may choose from.
    """
    # This runs before the large node, whose garbage would otherwise count.
    full = cycle.cycles(FULL_TENANTS, CANDIDATES, sizes.cycles).full
    rows = [
        _time_row(
            f"controller.cycle_ms.{tenants}",
            cycle.cycles(tenants, POLICIES, sizes.cycles).cycle,
            goal,
        )
        for tenants, goal in GOALS_MS.items()
    ]
    part = 100 / FULL_TENANTS
    rows.append(
        Row(
            "controller.full_cycle_ms_per_100",
            part * mean(full.cpu_ms),
            "ms",
            goal=FULL_GOAL_MS,
            reference="the mean, processor time; by the wall clock",
            reference_value=part * mean(full.wall_ms),
            runs=len(full.cpu_ms),
            spread=(part * min(full.cpu_ms), part * max(full.cpu_ms)),
        )
    )
    return rows


def _memory(_: Sizes) -> list[Row]:
    kib = heap.kib_per_tenant()
    return [Row("controller.memory_kib_per_tenant", kib, "KiB", goal=MEMORY_GOAL_KIB)]


PARTS: dict[str, Callable[[Sizes], list[Row]]] = {
    "gaps": _gaps,
    "times": _times,
    "cycles": _cycles,
    "memory": _memory,
}


def main() -> int:
    """Return 0 when every part that was named has been measured."""
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="small sizes; results go to build/")
    parser.add_argument(
        "--instances", type=int, default=200, help="instances of the part gaps (default: 200)"
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in PARTS:
            parser.error(f"unknown part {name!r} (known: {', '.join(PARTS)})")
    sizes = Sizes(instances=4, runs=1, cycles=2) if arguments.quick else Sizes(arguments.instances)
    folder = ROOT / "build" / "control-loop" / "quick" if arguments.quick else EXPERIMENT
    folder.mkdir(parents=True, exist_ok=True)
    origin = {"command": COMMAND, "commit": commit(), "machine": machine()}
    results = []
    for name in arguments.names or PARTS:
        results = merge(folder / "results.json", PARTS[name](sizes), origin)
    table.write(folder / "table.md", HEAD, results)
    if arguments.json:
        print(json.dumps([asdict(result) for result in results]))
    else:
        for result in results:
            print(f"{result.metric} {result.value:.4g} {result.unit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
