# SPDX-License-Identifier: Apache-2.0
"""Run the named workloads, all by default, and merge their rows into results.json."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from experiments.kernel_guest.guest_run import GuestError, say
from experiments.shared import table
from experiments.shared.rows import ROOT, Row, commit, machine, merge

from . import compaction, file_search, get_scan, plots, point_reads, swap
from .context import QUICK, Context, SkippedError

EXPERIMENT = Path(__file__).resolve().parent
COMMAND = "make bench-kernel"
WORKLOADS: dict[str, Callable[[Context], list[Row]]] = {
    "zipf": point_reads.run_zipf,
    "uniform": point_reads.run_uniform,
    "filesearch": file_search.run,
    "getscan": get_scan.run,
    "compaction": compaction.run,
    "swap": swap.run,
}
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Policies in the kernel: results

Written by `make bench-kernel` from `results.json`; README.md says what is measured and how.
"""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--quick", action="store_true", help="small sizes; results go to build/")
    parser.add_argument(
        "--stock",
        action="store_true",
        help="run the unpatched kernel with its own LRUs only; results go to build/",
    )
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in WORKLOADS:
            parser.error(f"unknown workload {name!r} (known: {', '.join(WORKLOADS)})")
    return arguments


def main() -> int:
    """Return 0 when every workload that was named has run."""
    arguments = _arguments()
    context = QUICK if arguments.quick else Context()
    folder = EXPERIMENT
    if arguments.quick or arguments.stock:
        folder = ROOT / "build" / "kernel-policies" / "trial"
    if arguments.stock:
        context = replace(context, kernel="stock", policies=False)
    folder.mkdir(parents=True, exist_ok=True)
    origin = {"command": COMMAND, "commit": commit(), "machine": machine()}
    failed = 0
    for name in arguments.names or WORKLOADS:
        say(name)
        try:
            rows = WORKLOADS[name](context)
        except SkippedError as reason:
            say(f"{name} skipped, its earlier results stay: {reason}")
            continue
        except GuestError as error:
            say(f"{name}: {error}")
            failed += 1
            continue
        results = merge(folder / "results.json", rows, origin)
        table.write(folder / "table.md", HEAD, results)
        plots.write(results, folder)
        for row in rows:
            say(f"{row.metric} {row.value:.4g} {row.unit}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
