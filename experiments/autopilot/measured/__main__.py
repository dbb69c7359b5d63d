# SPDX-License-Identifier: Apache-2.0
"""The autopilot measured in the virtual machine: isolation, memory and promises.

    experiments/autopilot/measure isolation|memory|qos [--runs N] [--first K]
    experiments/autopilot/measure collect

Every run is a file of build/autopilot/runs; `collect`, which also ends a measurement, makes
results.json and table.md of whatever runs are there, but for those in which the host was too busy.
Exit status: 0 when all runs came to their
end, 1 with the reason when one did not.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.autopilot.children import ChildError
from experiments.autopilot.measured import isolation, memory, qos, record, running
from experiments.autopilot.measured.world import World
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
    """What is run, and what is made of its runs."""

    world: Callable[[], World]
    rows: Callable[[Sequence[record.Run]], list[Row]]


EXPERIMENTS = {
    isolation.NAME: Experiment(isolation.world, isolation.rows),
    memory.NAME: Experiment(memory.world, memory.rows),
    qos.NAME: Experiment(qos.world, qos.rows),
}


def collect(folder: Path = EXPERIMENT) -> list[Row]:
    """Makes results.json and table.md of the runs that are there; the rows that were made."""
    made, results = [], []
    for name, experiment in EXPERIMENTS.items():
        found = record.read(name)
        runs = [run for run in found if not run.is_starved]
        if len(runs) < len(found):
            many = f"{len(found) - len(runs)} of {len(found)} runs"
            say(f"{name}: {many} are left out: too little processor time to keep the disk busy")
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
    parser.add_argument("--runs", type=int, default=3, help="how many (3)")
    parser.add_argument("--first", type=int, default=1, help="the number of the first (1)")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    for name in ("runs", "first"):
        if not 1 <= getattr(arguments, name) <= 999:
            parser.error(f"--{name} {getattr(arguments, name)}: must be 1 to 999")
    return arguments


def main() -> int:
    """The command line."""
    arguments = _arguments()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if arguments.what != "collect":
        for number in range(arguments.first, arguments.first + arguments.runs):
            try:
                document = running.run(EXPERIMENTS[arguments.what].world())
            except (ChildError, ProgramError, InputError) as error:
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
