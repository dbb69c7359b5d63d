# SPDX-License-Identifier: Apache-2.0
"""Measure what the agent costs a program that reads, and write results.json and table.md."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

from experiments.kernel_guest.guest_run import say
from experiments.shared import table
from experiments.shared.rows import ROOT, Row, commit, machine, merge

from .measure import Pair, Sizes, pairs

EXPERIMENT = Path(__file__).resolve().parent
COMMAND = "experiments/autopilot_cost/run"
GOALS_PCT = {"instructions_pct": 1.0, "agent_pct": 0.25}
FAMILY = "autopilot.cost"
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Overhead of the agent: results

Written by `experiments/autopilot_cost/run` from `results.json`; README.md says what is measured.
"""
PARTS: dict[str, Callable[[Pair], float]] = {
    "instructions_pct": lambda pair: pair.total_pct,
    "sampler_pct": lambda pair: pair.sampler_pct,
    "agent_pct": lambda pair: pair.agent_pct,
}


def rows(found: dict[int, list[Pair]]) -> list[Row]:
    """Return a row per part and size, and the mean over sizes of each part.

    The total and the agent's process have goals.
    """
    made = []
    for part, read in PARTS.items():
        by_size = {percent: [read(pair) for pair in some] for percent, some in found.items()}
        for percent, values in by_size.items():
            made.append(
                Row.of_runs(
                    f"{FAMILY}.{part}.size{percent}",
                    values,
                    "percent",
                    reference=f"no agent, instructions per read, {percent}% of the file fits",
                    reference_value=median(pair.without.guest for pair in found[percent]),
                )
            )
        means = [median(values) for values in by_size.values()]
        made.append(
            Row(
                f"{FAMILY}.{part}",
                mean(means),
                "percent",
                goal=GOALS_PCT.get(part),
                reference=f"no agent, guest instructions per read, mean of {len(means)} sizes",
                runs=sum(map(len, by_size.values())),
                spread=(min(means), max(means)),
            )
        )
    return made


def main() -> int:
    """Return 0 when every size has been measured with and without the agent."""
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; results go to build/")
    arguments = parser.parse_args()
    sizes = Sizes(reads_per_job=4000, repeats=1) if arguments.quick else Sizes()
    folder = ROOT / "build" / "autopilot-cost" / "quick" if arguments.quick else EXPERIMENT
    folder.mkdir(parents=True, exist_ok=True)
    origin = {"command": COMMAND, "commit": commit(), "machine": machine()}
    results = merge(folder / "results.json", rows(pairs(sizes)), origin)
    table.write(folder / "table.md", HEAD, results)
    for result in results:
        say(f"{result.metric} {result.value:.4g} {result.unit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
