# SPDX-License-Identifier: Apache-2.0
"""Options and checks that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from cachepilot import _models
from cachepilot.cli.terminal.progress import Reporter
from cachepilot.errors import InputError

PLOT_SUFFIXES = (".svg", ".png", ".pdf")

SIZE_HELP = (
    "Cache size: a share of the trace's footprint (0.10 or 10%), pages (4096) "
    "or bytes (16MiB, pages of 4 KiB); at most the footprint"
)

TraceArgument = Annotated[
    Path,
    typer.Argument(metavar="TRACE", help="Trace file; its suffix, or --format, gives the format."),
]
PolicyOption = Annotated[
    str,
    typer.Option(
        metavar="NAME[,NAME...]",
        help="Policies, or 'all' for every policy folder; 'opt' is Belady's optimum.",
    ),
]
BatchOption = Annotated[
    int,
    typer.Option(
        min=1,
        max=32,
        help="Folios per eviction request, at most a sixteenth of the cache; "
        "1 is the textbook algorithm, 32 the kernel's.",
    ),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="POLICY.TUNABLE[.ELEMENT]=VALUE", help="Set a tunable."),
]
SeedOption = Annotated[
    int,
    typer.Option(
        min=0,
        max=(1 << 64) - 1,
        help="Seed of policies that draw random numbers.",
    ),
]
ThreadsOption = Annotated[
    int, typer.Option(min=0, max=1024, help="Threads to use; 0 means all cores.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
PlotOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write a plot; .svg, .png or .pdf."),
]


def check_plot(path: Path | None) -> None:
    """Refuse a plot file that could not be written, before any work is done for it."""
    if path is None:
        return
    if path.suffix not in PLOT_SUFFIXES:
        raise InputError(
            f"--plot {path}: unknown suffix {path.suffix!r} (allowed: {', '.join(PLOT_SUFFIXES)})"
        )
    if path.is_dir():
        raise InputError(f"--plot {path}: is a folder")
    if not path.parent.is_dir():
        raise InputError(f"--plot {path}: no folder {path.parent}")


def footprint(
    trace: Path, reading: _models.TraceOptions | None, reporter: Reporter
) -> tuple[int, int]:
    """Return (requests, distinct pages) of `trace`; without options, the suffix decides."""
    with reporter.stage(f"reading {trace.name}") as report:
        return _models.trace_footprint(str(trace), reading, report)
