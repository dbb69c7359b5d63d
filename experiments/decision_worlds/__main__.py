# SPDX-License-Identifier: Apache-2.0
"""Simulate the named parts, all by default, and merge their rows into results.json."""

import argparse
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from experiments.decision_worlds import flips, paired, worlds
from experiments.decision_worlds.worlds import Sizes
from experiments.shared import table
from experiments.shared.rows import ROOT, Row, commit, machine, merge

EXPERIMENT = Path(__file__).resolve().parent
COMMAND = "experiments/decision_worlds/run"
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Changes that gain nothing: results

Written by `experiments/decision_worlds/run` from `results.json`; README.md says what is measured.
"""
QUICK = Sizes(alike=1, mispredicted=1, flips=1, interrupted=1, seconds=30)

PARTS: dict[str, Callable[[Sizes], Sequence[Row]]] = {
    "alike": worlds.alike,
    "mispredicted": worlds.mispredicted,
    "gain": worlds.gain,
    "flips": flips.measure,
    "paired": paired.measure,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when every part that was named has been played."""
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="small sizes; results go to build/")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    told = parser.parse_args(arguments)
    for name in told.names:
        if name not in PARTS:
            parser.error(f"unknown part {name!r} (known: {', '.join(PARTS)})")
    logging.getLogger("cachepilot").setLevel(logging.ERROR)
    sizes = QUICK if told.quick else Sizes()
    out = ROOT / "build" / "decision-worlds" / "quick" if told.quick else EXPERIMENT
    out.mkdir(parents=True, exist_ok=True)
    origin = {"command": COMMAND, "commit": commit(), "machine": machine()}
    rows: list[Row] = []
    for name in told.names or PARTS:
        found = PARTS[name](sizes)
        table.write(out / "table.md", HEAD, merge(out / "results.json", found, origin))
        rows += found
    if told.json:
        print(json.dumps([asdict(row) for row in rows]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
