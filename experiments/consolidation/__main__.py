# SPDX-License-Identifier: Apache-2.0
"""Measure the named parts and merge their rows into results.json.

Without a name, every part is measured except `machine`, which needs the patched kernel.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.consolidation import one, recovery
from experiments.consolidation.machine import move
from experiments.consolidation.moving import day, prepared, proof
from experiments.shared import table
from experiments.shared.rows import ROOT, Row

EXPERIMENT = Path(__file__).resolve().parent
COMMAND = "experiments/consolidation/run"
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Consolidation: results

Written by `experiments/consolidation/run` from `results.json`; README.md says what is measured.
"""


@dataclass(frozen=True)
class Sizes:
    """How much is measured; seconds are those of the nodes."""

    traces: Path | None = None
    seconds: float = 480.0
    seeds: int = 2
    most_nodes: int | None = None
    fleet: proof.Scale = proof.WHOLE
    fleet_seeds: int = 5
    arrival_seeds: int = 3
    whole_day: day.Scale = day.WHOLE
    day_seeds: int = 3
    machine_runs: int = 2


@dataclass(frozen=True)
class Part:
    """One question: the prefix of its metrics, and the function that measures it."""

    metrics: str
    measure: Callable[[Sizes], Sequence[Row]]


PARTS = {
    "one": Part(
        "consolidation.one.",
        lambda sizes: one.measure(sizes.seconds, sizes.seeds, sizes.traces, sizes.most_nodes),
    ),
    "recovery": Part(
        "consolidation.recovery.", lambda sizes: recovery.measure(sizes.seconds, sizes.seeds)
    ),
    "fleet": Part(
        "consolidation.fleet.", lambda sizes: proof.measure(sizes.fleet_seeds, sizes.fleet)
    ),
    "arrival": Part(
        "consolidation.arrival.", lambda sizes: prepared.measure(sizes.arrival_seeds, sizes.fleet)
    ),
    "day": Part("consolidation.day.", lambda sizes: day.measure(sizes.day_seeds, sizes.whole_day)),
    "machine": Part("consolidation.machine.", lambda sizes: move.measure(sizes.machine_runs)),
}
BY_DEFAULT = [name for name in PARTS if name != "machine"]


def main() -> int:
    """Return 0 when every part that was named has been measured."""
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--traces", type=Path, help="a folder of further traces, *.u64.zst")
    parser.add_argument("--quick", action="store_true", help="small sizes; results go to build/")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in PARTS:
            parser.error(f"unknown part {name!r} (known: {', '.join(PARTS)})")
    fleet, whole_day = proof.Scale(2, 20, 10, 10), day.Scale(2, 360.0)
    quick = Sizes(arguments.traces, 120.0, 1, 1, fleet, 1, 1, whole_day, 1, 1)
    sizes = quick if arguments.quick else Sizes(arguments.traces)
    out = ROOT / "build" / "consolidation" / "quick" if arguments.quick else EXPERIMENT
    parts = [PARTS[name] for name in arguments.names or BY_DEFAULT]
    rows = [row for part in parts for row in part.measure(sizes)]
    measured = tuple(part.metrics for part in parts)
    table.publish(out, HEAD, rows, COMMAND, lambda old: old.startswith(measured))
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
