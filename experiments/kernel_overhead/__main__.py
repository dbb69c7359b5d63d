# SPDX-License-Identifier: Apache-2.0
"""Measure the named parts, all by default, and merge their rows into results.json."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

from experiments.kernel_guest.guest_run import say
from experiments.shared import table
from experiments.shared.rows import ROOT, Row, commit, machine, merge

from . import hits, measure, noop_policy, registry
from .measure import STOCK, UNATTACHED, Sizes

EXPERIMENT = Path(__file__).resolve().parent
COMMAND = "make bench-kernel"
GOALS = {"unattached": 0.1, "noop": 1.7}
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Overhead of the kernel framework: results

Written by `make bench-kernel` from `results.json`; README.md says what is measured and how.
"""


def _overhead_rows(family: str, costs: measure.Costs, unit: str, goals: bool) -> list[Row]:
    """Return a row per size, and their mean, which has the goal."""
    found = []
    for mode, base in (("unattached", "stock"), ("noop", "unattached")):
        overheads = measure.overhead_pct(costs, mode, base)
        for percent, values in overheads.items():
            found.append(
                Row(
                    f"{family}.{mode}.size{percent}",
                    mean(values),
                    "percent",
                    runs=len(values),
                    spread=(min(values), max(values)),
                    reference=f"{base}, {unit} per read, {percent}% of the file fits",
                    reference_value=median(cost.cpu_ns for cost in costs[base, percent].values()),
                )
            )
        means = [mean(values) for values in overheads.values()]
        found.append(
            Row(
                f"{family}.{mode}",
                mean(means),
                "percent",
                goal=GOALS[mode] if goals else None,
                reference=f"{base}, {unit} per read, mean of {len(means)} sizes",
                runs=sum(map(len, overheads.values())),
                spread=(min(means), max(means)),
            )
        )
    return found


def _modes() -> list[measure.Mode]:
    return [STOCK, UNATTACHED, measure.noop(noop_policy.build())]


def _instructions(sizes: Sizes) -> list[Row]:
    costs = measure.costs(_modes(), icount=True, sizes=sizes)
    return _overhead_rows("kernel.overhead_pct", costs, "guest instructions", goals=True)


def _cpu_time(sizes: Sizes) -> list[Row]:
    costs = measure.costs(_modes(), icount=False, sizes=sizes)
    return _overhead_rows("kernel.overhead_cpu_pct", costs, "nanoseconds of CPU", goals=False)


PARTS: dict[str, Callable[[Sizes, str], list[Row]]] = {
    "instructions": lambda sizes, _: _instructions(sizes),
    "cpu_time": lambda sizes, _: _cpu_time(sizes),
    "registry": lambda _, _kernel: registry.run(),
    "hits": hits.run,
    "misses": hits.run_misses,
}


def main() -> int:
    """Return 0 when every part that was named has been measured."""
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument(
        "--repeats", type=int, default=Sizes.repeats, help=f"runs of each kind ({Sizes.repeats})"
    )
    parser.add_argument(
        "--kernel",
        default=measure.KERNEL,
        choices=(measure.KERNEL, "patched"),
        help="kernel for `hits` and `misses`; in `patched`, static branches read memory",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; results go to build/")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in PARTS:
            parser.error(f"unknown part {name!r} (known: {', '.join(PARTS)})")
    if not 1 <= arguments.repeats <= 99:
        parser.error(f"--repeats {arguments.repeats}: must be 1 to 99")
    sizes = Sizes(repeats=arguments.repeats)
    if arguments.quick:
        sizes = Sizes(reads_per_job=1000, repeats=1)
    folder = ROOT / "build" / "kernel-overhead" / "quick" if arguments.quick else EXPERIMENT
    folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or PARTS:
        say(name)
        command = COMMAND
        if arguments.kernel != measure.KERNEL:
            command = f"experiments/kernel_overhead/run {name} --kernel {arguments.kernel}"
        origin = {"command": command, "commit": commit(), "machine": machine()}
        results = merge(folder / "results.json", PARTS[name](sizes, arguments.kernel), origin)
        table.write(folder / "table.md", HEAD, results)
        for result in results:
            say(f"{result.metric} {result.value:.4g} {result.unit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
