# SPDX-License-Identifier: Apache-2.0
"""Measure the dashboard and write results.json and table.md."""

import argparse
import sys
import tempfile
from pathlib import Path

from experiments.shared import table
from experiments.shared.rows import ROOT, Row, commit, machine, merge

from .measure import measure

EXPERIMENT = Path(__file__).resolve().parent
TENANTS = 1000
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# The dashboard with 1,000 tenants: results

Written by `experiments/dashboard/run` from `results.json`; README.md says what is measured.
"""


def main() -> int:
    """Return 0 when everything has been measured."""
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="runs of each measurement (default: 7)")
    parser.add_argument("--quick", action="store_true", help="two runs; results go to build/")
    arguments = parser.parse_args()
    folder = ROOT / "build" / "dashboard" / "quick" if arguments.quick else EXPERIMENT
    folder.mkdir(parents=True, exist_ok=True)
    runs = 2 if arguments.quick else arguments.runs
    with tempfile.TemporaryDirectory() as place:
        found = measure(Path(place), TENANTS, runs)
    rows = [
        Row.of_runs("dashboard.interactive_ms", found.interactive_ms, "ms", goal=500.0),
        Row.of_runs("dashboard.update_ms", found.update_ms, "ms", goal=50.0),
        Row.of_runs("dashboard.search_ms", found.search_ms, "ms"),
        Row("dashboard.rows", found.rows, "rows", goal=200.0, runs=1),
    ]
    origin = {"command": "experiments/dashboard/run", "commit": commit(), "machine": machine()}
    results = merge(folder / "results.json", rows, origin)
    table.write(folder / "table.md", HEAD, results)
    for result in results:
        print(f"{result.metric} {result.value:.4g} {result.unit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
