# SPDX-License-Identifier: Apache-2.0
"""Count the locks that hits take under each policy, and merge the rows into results.json."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from experiments.kernel_guest.guest_run import say
from experiments.shared import table
from experiments.shared.rows import ROOT, Row, as_json, commit, machine, merge

from cachepilot import manifest

from . import locks
from .measure import NO_POLICY, Run, Sizes, measure

EXPERIMENT = Path(__file__).resolve().parent
COMMAND = "make bench-kernel"
PATCHES = ROOT / "kernel" / "patches"
QUICK = Sizes(file_mib=4, threads=(1, 8), reads_per_thread=200, repeats=1)
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Locks taken by hits: results

Written by `make bench-kernel` from `results.json`; README.md says what is measured and how.
"""


def _worst(metric: str, values: Sequence[float], unit: str, reference: str) -> Row:
    return Row(
        metric,
        max(values),
        unit,
        goal=0,
        reference=reference,
        runs=len(values),
        spread=(min(values), max(values)),
    )


def _speedup(runs: Sequence[Run], fewest: int, most: int) -> float:
    """Return reads per second with the most threads, divided by those with the fewest."""
    rates = {
        count: median(run.reads_per_second for run in runs if run.threads == count)
        for count in (fewest, most)
    }
    return rates[most] / rates[fewest]


def rows_of(found: dict[str, list[Run]], sizes: Sizes) -> list[Row]:
    """Return the rows of every policy, and the worst of all policies."""
    fewest, most = min(sizes.threads), max(sizes.threads)
    threads = f"the worst of {', '.join(map(str, sizes.threads))} threads"
    plain = _speedup(found[NO_POLICY], fewest, most)
    rows, all_taken, all_waited = [], [], []
    for policy, runs in found.items():
        if policy == NO_POLICY:
            continue
        taken = [run.locks.acquisitions / run.reads for run in runs]
        waited = [float(run.locks.contentions) for run in runs]
        all_taken.append(max(taken))
        all_waited.append(max(waited))
        own = f"kernel.scaling.acquisitions_per_hit.{policy}"
        rows.append(_worst(own, taken, "locks of the series", threads))
        rows.append(_worst(f"kernel.scaling.contended.{policy}", waited, "times", threads))
        rows.append(
            Row(
                f"kernel.scaling.speedup.{policy}",
                _speedup(runs, fewest, most),
                "ratio",
                better="higher",
                reference=f"{most} threads over {fewest}; without a policy",
                reference_value=plain,
                runs=sizes.repeats,
            )
        )
    of_all = f"the worst of {len(all_taken)} policies"
    rows.append(
        _worst("kernel.scaling.acquisitions_per_hit", all_taken, "locks of the series", of_all)
    )
    rows.append(_worst("kernel.scaling.contended", all_waited, "times", of_all))
    return rows


def main() -> int:
    """Return 0 when every policy has been measured."""
    shipped = manifest.attachable()
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="POLICY", help=", ".join(shipped))
    parser.add_argument("--quick", action="store_true", help="small sizes; results go to build/")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in shipped:
            parser.error(f"unknown policy {name!r} (known: {', '.join(shipped)})")
    sizes = QUICK if arguments.quick else Sizes()
    policies = arguments.names or shipped
    names = locks.of_series(PATCHES.glob("*.patch"))
    say(f"locks of the series: {', '.join(sorted(names))}")
    found = measure(policies, names, sizes)
    rows = rows_of(found, sizes)
    # A run of some of the policies, or a small one, is not a result of the experiment.
    folder = EXPERIMENT
    if arguments.quick or arguments.names:
        folder = ROOT / "build" / "kernel-scaling" / "trial"
    folder.mkdir(parents=True, exist_ok=True)
    origin = {"command": COMMAND, "commit": commit(), "machine": machine()}
    results = merge(folder / "results.json", rows, origin)
    table.write(folder / "table.md", HEAD, results)
    if arguments.json:
        print(json.dumps([as_json(row, origin) for row in rows], indent=1))
    for row in rows:
        say(f"{row.metric} {row.value:.4g} {row.unit}")
    return 0 if len(found) == len(policies) + 1 else 1


if __name__ == "__main__":
    sys.exit(main())
