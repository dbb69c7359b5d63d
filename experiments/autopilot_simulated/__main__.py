# SPDX-License-Identifier: Apache-2.0
"""Measure the named parts, all by default, and merge their rows into results.json."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.autopilot_simulated import memory, never_worse, phase, qos
from experiments.autopilot_simulated.tenants import further_traces
from experiments.shared import table
from experiments.shared.rows import ROOT, Row

EXPERIMENT = Path(__file__).resolve().parent
COMMAND = "experiments/autopilot_simulated/run"
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# The autopilot on simulated nodes: results

Written by `experiments/autopilot_simulated/run` from `results.json`; README.md says what is
measured.
"""


@dataclass(frozen=True)
class Sizes:
    """How much is measured; seconds are those of the node."""

    traces: Path | None
    most_traces: int | None = None
    seconds: float = 240.0
    seeds: int | None = None
    """The same number for every part; None means the number of each part."""


@dataclass(frozen=True)
class Part:
    """One question: the prefix of its metrics, and its number of seeds."""

    metrics: str
    seeds: int
    measure: Callable[[Sizes, int], Sequence[Row]]


PARTS = {
    "never_worse": Part(
        "autopilot.neverworse.",
        3,
        lambda sizes, seeds: never_worse.measure(
            sizes.traces, sizes.seconds, seeds, sizes.most_traces
        ),
    ),
    "memory": Part(
        "autopilot.simulated.memory.",
        3,
        lambda sizes, seeds: memory.measure(sizes.seconds, seeds),
    ),
    "phase": Part("autopilot.phase.", 10, lambda _, seeds: phase.measure(seeds)),
    "qos": Part("autopilot.simulated.qos_", 10, lambda _, seeds: qos.measure(seeds)),
}


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
    folder = arguments.traces or further_traces()
    sizes = Sizes(arguments.traces, 4, 30.0, 1) if arguments.quick else Sizes(folder)
    out = ROOT / "build" / "autopilot-simulated" / "quick" if arguments.quick else EXPERIMENT
    parts = [PARTS[name] for name in arguments.names or PARTS]
    rows = [row for part in parts for row in part.measure(sizes, sizes.seeds or part.seeds)]
    measured = tuple(part.metrics for part in parts)
    table.publish(out, HEAD, rows, COMMAND, lambda old: old.startswith(measured))
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
