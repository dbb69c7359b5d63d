# SPDX-License-Identifier: Apache-2.0
"""Measure the autopilot in the virtual machine: isolation, memory, SLOs, the demonstration.

    experiments/autopilot/measure isolation|memory|qos|demo [--runs N] [--first K]
    experiments/autopilot/measure collect

Every run is a file in build/autopilot/runs. `collect`, which also runs at the end of a measurement,
makes results.json and table.md from all runs in that folder, except runs in which the host was too
busy. Exit status: 0 if all runs finished, 1 with the reason otherwise.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.autopilot.children import ChildError
from experiments.autopilot.measured import demo, isolation, memory, qos, record, running
from experiments.autopilot.watching import DemoError
from experiments.kernel_guest.guest_run import say
from experiments.shared import table
from experiments.shared.compiling import ProgramError
from experiments.shared.rows import Row, merge

from cachepilot.errors import InputError

EXPERIMENT = Path(__file__).resolve().parent.parent
COMMAND = "experiments/autopilot/measure"
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# The autopilot in the virtual machine: results

Written by `experiments/autopilot/measure` from `results.json`; README.md says what is measured, and
puts the papers' figures beside it.
"""


@dataclass(frozen=True)
class Experiment:
    """One experiment: what a run is, how rows are made of all runs, and how many runs there are."""

    run: Callable[[], dict[str, Any]]
    rows: Callable[[Sequence[record.Run]], list[Row]]
    runs: int = 5


EXPERIMENTS = {
    isolation.NAME: Experiment(lambda: running.run(isolation.world()), isolation.rows),
    memory.NAME: Experiment(lambda: running.run(memory.world()), memory.rows),
    qos.NAME: Experiment(lambda: running.run(qos.world()), qos.rows),
    demo.NAME: Experiment(demo.run, demo.rows, runs=3),
}


def collect(folder: Path = EXPERIMENT) -> list[Row]:
    """Make results.json and table.md of the recorded runs, and return the rows."""
    made, results = [], []
    for name, experiment in EXPERIMENTS.items():
        found = record.read(name)
        runs = [run for run in found if not run.is_starved]
        if len(runs) < len(found):
            many = f"{len(found) - len(runs)} of {len(found)} runs"
            say(f"{name}: {many} are left out: too little CPU time to keep the disk busy")
        if not runs:
            continue
        rows = experiment.rows(runs)
        newest = runs[-1].document
        origin = {
            "command": f"{COMMAND} {name} --runs {len(runs)}",
            "commit": newest["commit"],
            "machine": newest["machine"],
        }
        results = merge(folder / "results.json", rows, origin)
        made += rows
    if results:
        table.write(folder / "table.md", HEAD, results)
    return made


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="measure", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=[*EXPERIMENTS, "collect"])
    parser.add_argument("--runs", type=int, help="number of runs (default: 5; demo: 3)")
    parser.add_argument("--first", type=int, default=1, help="number of the first run (default: 1)")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    if arguments.runs is None and arguments.what in EXPERIMENTS:
        arguments.runs = EXPERIMENTS[arguments.what].runs
    for name in ("runs", "first"):
        given = getattr(arguments, name)
        if given is not None and not 1 <= given <= 999:
            parser.error(f"--{name} {given}: must be 1 to 999")
    return arguments


def main() -> int:
    """Run the command line."""
    arguments = _arguments()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if arguments.what != "collect":
        for number in range(arguments.first, arguments.first + arguments.runs):
            try:
                document = EXPERIMENTS[arguments.what].run()
            except (ChildError, DemoError, ProgramError, InputError) as error:
                print(f"measure: {arguments.what}: run {number}: {error}", file=sys.stderr)
                return 1
            path = record.write(document, number)
            say(f"{arguments.what}: run {number}: {document['lasted_s']:.0f} s, {path}")
    rows = collect()
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
