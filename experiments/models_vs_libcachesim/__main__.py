# SPDX-License-Identifier: Apache-2.0
"""Run the named benchmarks, all by default, and merge their rows into results.json."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from . import accuracy, curves, minisim, plots, speed, table
from .context import EXPERIMENT, QUICK, ROOT, Context, SkippedError
from .native import NativeError
from .rows import Row, merge

BENCHMARKS: dict[str, Callable[[Context], list[Row]]] = {
    "accuracy": accuracy.run,
    "shards": curves.run_shards,
    "choice": minisim.run_choice,
    "minisim": minisim.run_minisim,
    "curves": curves.run_curves,
    "bank": curves.run_bank,
    "speed": speed.run,
    "speed_tuned": speed.run_tuned,
}
QUICK_FOLDER = ROOT / "build" / "bench-quick"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"benchmarks to run: {', '.join(BENCHMARKS)}"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tiny sizes whose figures have no meaning; results go to build/bench-quick by default",
    )
    parser.add_argument("--out", type=Path, help="folder for results.json, table.md and plots")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in BENCHMARKS:
            parser.error(f"unknown benchmark {name!r} (known: {', '.join(BENCHMARKS)})")
    return arguments


def main() -> int:
    """Return 0 when every benchmark ran or was skipped with a reason, 1 when one failed."""
    arguments = _arguments()
    context = QUICK if arguments.quick else Context()
    folder: Path = arguments.out or (QUICK_FOLDER if arguments.quick else EXPERIMENT)
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name in BENCHMARKS if name in arguments.names or not arguments.names]
    results = []
    for number, name in enumerate(names, start=1):
        context.say(f"{number} of {len(names)}: {name}")
        try:
            rows = BENCHMARKS[name](context)
        except SkippedError as reason:
            context.say(f"{name} skipped, its earlier results stay: {reason}")
            continue
        except NativeError as error:
            context.say(str(error))
            return 1
        results = merge(folder / "results.json", rows)
    if not results:
        context.say("no benchmark ran")
        return 0
    table.write(results, folder / "table.md")
    plots.write(results, folder)
    short = [result for result in results if result.status == "short"]
    context.say(f"{len(results)} results in {folder}, {len(short)} miss their goal")
    for result in short:
        print(f"{result.metric}: {result.value:.4g}, goal {result.goal:g} {result.unit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
