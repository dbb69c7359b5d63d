# SPDX-License-Identifier: Apache-2.0
"""Runs the autopilot on four tenants that replay recorded programs, beside the kernel's default.

    python -m experiments.autopilot [--node simulated|vm] [--seconds N] [--stay] [--json]
                                    [--out build/run]

Prints the state while it runs, then a table of before and after, and plots memory, policies and
throughput. Exit status: 0 when the table was printed, 1 with the reason when a part failed, 130
after Ctrl-C. With --stay, Ctrl-C ends the run normally.
"""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.autopilot import comparison, scenario, watching
from experiments.autopilot.children import ChildError
from experiments.autopilot.live import status_line, status_table
from experiments.autopilot.plot import plot
from experiments.autopilot.timeline import Timeline
from experiments.autopilot.ways import WAYS, Way, play
from experiments.shared.compiling import ProgramError
from experiments.shared.rows import ROOT
from rich.console import Console
from rich.live import Live

from cachepilot.api.shapes.views import TenantView
from cachepilot.cli.terminal.tables import console
from cachepilot.errors import InputError

LINE_EVERY_SECONDS = 10.0
LEAST_SECONDS = 20.0


@contextmanager
def _shown(
    chosen: scenario.Scenario, until: float | None, screen: Console
) -> Iterator[watching.Watcher]:
    """Yield a function that shows each look: a live table on a terminal, else a line at times."""
    if screen.is_terminal:
        with Live(console=screen, auto_refresh=False) as live:

            def redraw(tenants: list[TenantView], seconds: float) -> None:
                left = None if until is None else max(0.0, until - seconds)
                live.update(status_table(tenants, seconds, left), refresh=True)

            yield redraw
        return
    printed = 0.0

    def line(tenants: list[TenantView], seconds: float) -> None:
        nonlocal printed
        if seconds >= printed:
            screen.print(status_line(tenants, seconds, chosen.slos), soft_wrap=True)
            printed += LINE_EVERY_SECONDS

    yield line


def _run(
    way: Way, chosen: scenario.Scenario, stay: bool, folder: Path, screen: Console
) -> Timeline:
    """Play the scenario and show its state on the screen."""
    until = None if stay else way.seconds(chosen)

    def tell(line: str) -> None:
        screen.print(line, soft_wrap=True)

    return play(way, chosen, folder, stay, tell, _shown(chosen, until, screen))


def report(timeline: Timeline, chosen: scenario.Scenario, out: Path, as_json: bool) -> None:
    """Print the table or its numbers, and write both plots and every sample to `out`."""
    rows = comparison.rows(timeline, chosen.windows(timeline.last_s), chosen.slos)
    if not rows:
        raise watching.DemoError(f"no windows to compare after {timeline.last_s:.0f} s of samples")
    plots = [out / "autopilot.svg", out / "autopilot.png"]
    plot(timeline, chosen.slos, [chosen.change_s], plots)
    samples = out / "autopilot.json"
    document = {"rows": comparison.as_json(rows), "samples": timeline.as_json()}
    samples.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    if as_json:
        print(json.dumps({"rows": document["rows"], "plots": [str(path) for path in plots]}))
        return
    screen = console()
    screen.print(comparison.table(rows))
    screen.print(f"plots: {plots[0]} and .png; all samples: {samples}", soft_wrap=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make run", description="Run a demonstration of the autopilot."
    )
    parser.add_argument("--node", choices=sorted(WAYS), default="simulated")
    parser.add_argument(
        "--seconds", type=float, help="duration of each side (default: 90; vm: 180)"
    )
    parser.add_argument("--stay", action="store_true", help="run until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON on stdout")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "run")
    arguments = parser.parse_args()
    if arguments.seconds is None:
        arguments.seconds = 90.0 if arguments.node == "simulated" else 180.0
    if not LEAST_SECONDS <= arguments.seconds <= 86_400:
        parser.error(f"--seconds {arguments.seconds:g}: must be {LEAST_SECONDS:g} to 86400")
    return arguments


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run the command line."""
    arguments = _arguments()
    build = scenario.recorded if arguments.node == "simulated" else scenario.real
    chosen = build(arguments.seconds)
    screen = Console(stderr=True, highlight=False) if arguments.json else console()
    signal.signal(signal.SIGTERM, _interrupt)
    arguments.out.mkdir(parents=True, exist_ok=True)
    # The folder is kept, because its logs are needed to find out why something failed.
    folder = Path(tempfile.mkdtemp(prefix="cachepilot-run-"))
    try:
        timeline = _run(WAYS[arguments.node], chosen, arguments.stay, folder, screen)
        report(timeline, chosen, arguments.out, arguments.json)
    except KeyboardInterrupt:
        return 130
    except (ChildError, watching.DemoError, ProgramError, InputError) as error:
        print(f"make run: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
