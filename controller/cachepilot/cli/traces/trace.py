# SPDX-License-Identifier: Apache-2.0
"""`cachepilot trace`: facts about a trace file, its first requests, conversion, generation."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cachepilot import _models
from cachepilot.cli.terminal import options, tables
from cachepilot.cli.terminal.progress import Report, Reporter
from cachepilot.cli.terminal.reading import reads_traces
from cachepilot.errors import InputError
from cachepilot.sizes import human_pages

app = typer.Typer(
    help="Look into trace files, convert and generate them.",
    rich_markup_mode=None,
    no_args_is_help=False,
)


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@app.command()
@reads_traces
def info(
    trace: options.TraceArgument,
    reading: _models.TraceOptions,
    as_json: options.JsonOption = False,
) -> None:
    """Print the format, the requests and the footprint of a trace."""
    with Reporter() as reporter, reporter.stage(f"reading {trace.name}") as report:
        facts: dict[str, Any] = json.loads(_models.trace_info_json(str(trace), reading, report))
    if as_json:
        tables.print_json(facts)
        return
    table = tables.new_table(str(trace))
    table.show_header = False
    tables.add_columns(table, ["fact", "value"], "left")
    for key, value in facts.items():
        text = human_pages(value) if key == "distinct_pages" else _text(value)
        table.add_row(key.replace("_", " "), text)
    tables.console().print(table)


@app.command()
@reads_traces
def head(
    trace: options.TraceArgument,
    reading: _models.TraceOptions,
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, max=1_000_000, help="Requests to print.")
    ] = 10,
    as_json: options.JsonOption = False,
) -> None:
    """Print the first requests of a trace."""
    rows: list[dict[str, Any]] = json.loads(_models.trace_head_json(str(trace), count, reading))
    if as_json:
        tables.print_json(rows)
        return
    names = list(dict.fromkeys(key for row in rows for key in row))
    table = tables.new_table()
    tables.add_columns(table, names)
    for row in rows:
        table.add_row(*("" if row.get(name) is None else str(row[name]) for name in names))
    tables.console().print(table)


TargetArgument = Annotated[
    Path,
    typer.Argument(metavar="DST", help="Trace to write; .u64 or .cptrace, each also with .zst."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace DST when it exists.")]


@app.command()
@reads_traces
def convert(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="Trace to read.")],
    target: TargetArgument,
    reading: _models.TraceOptions,
    force: ForceOption = False,
) -> None:
    """Write a trace in another format. DST appears only once it is complete."""

    def write(partial: str, report: Report | None) -> int:
        return _models.trace_convert(str(source), partial, reading, report)

    _write(target, force, f"converting {source.name}", write)


@app.command()
def generate(
    target: TargetArgument,
    mix: Annotated[
        list[str],
        typer.Option(
            metavar="PATTERN",
            help="A pattern of the mixture, repeatable: zipf,pages=N[,alpha=A]; uniform,pages=N; "
            "loop,pages=N; scan; shifting,pages=N,every=REQUESTS,by=PAGES[,alpha=A]; each also "
            "with weight=W, its share of the requests relative to the others.",
        ),
    ],
    requests: Annotated[
        int, typer.Option(min=1, max=1 << 40, help="Requests to write.")
    ] = 1_000_000,
    seed: Annotated[
        int, typer.Option(min=0, max=(1 << 64) - 1, help="Seed of the random numbers.")
    ] = 1,
    force: ForceOption = False,
) -> None:
    """Write a synthetic trace: independent draws from patterns, each with pages of its own."""

    def write(partial: str, report: Report | None) -> int:
        return _models.trace_generate(partial, mix, requests, seed, report)

    _write(target, force, f"generating {target.name}", write)


def _write(
    target: Path, force: bool, label: str, write: Callable[[str, Report | None], int]
) -> None:
    """Let `write` create a temporary file with `target`'s suffix, then rename it to `target`."""
    if target.is_dir() or not target.parent.is_dir():
        raise InputError(f"{target}: not a file in a folder that exists")
    if target.exists() and not force:
        raise InputError(f"{target}: exists already (--force replaces it)")
    with tempfile.TemporaryDirectory(prefix=".cachepilot-", dir=target.parent) as folder:
        partial = Path(folder) / target.name
        try:
            with Reporter() as reporter, reporter.stage(label) as report:
                requests = write(str(partial), report)
        except _models.ModelsError as error:
            raise InputError(str(error).replace(str(partial), str(target))) from None
        os.replace(partial, target)
    tables.console().print(f"{target}: {requests:,} requests written")
