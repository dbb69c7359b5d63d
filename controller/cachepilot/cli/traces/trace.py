# SPDX-License-Identifier: Apache-2.0
"""`cachepilot trace`: what is in a trace file, its first requests, other formats."""

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from cachepilot import _models
from cachepilot.cli.terminal import options, tables
from cachepilot.cli.terminal.progress import Reporter
from cachepilot.errors import InputError
from cachepilot.sizes import human_pages

app = typer.Typer(
    help="Look into trace files and convert them.", rich_markup_mode=None, no_args_is_help=False
)


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@app.command()
def info(
    trace: options.TraceArgument,
    column: options.ColumnOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print the format, the requests and the footprint of a trace."""
    with Reporter() as reporter, reporter.stage(f"reading {trace.name}") as report:
        facts: dict[str, Any] = json.loads(_models.trace_info_json(str(trace), column, report))
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
def head(
    trace: options.TraceArgument,
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, max=1_000_000, help="Requests to print.")
    ] = 10,
    column: options.ColumnOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print the first requests of a trace."""
    rows: list[dict[str, Any]] = json.loads(_models.trace_head_json(str(trace), count, column))
    if as_json:
        tables.print_json(rows)
        return
    names = list(dict.fromkeys(key for row in rows for key in row))
    table = tables.new_table()
    tables.add_columns(table, names)
    for row in rows:
        table.add_row(*("" if row.get(name) is None else str(row[name]) for name in names))
    tables.console().print(table)


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="Trace to read.")],
    target: Annotated[
        Path, typer.Argument(metavar="DST", help="Trace to write; the suffix tells its format.")
    ],
    column: options.ColumnOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace DST when it exists.")] = False,
) -> None:
    """Write a trace in another format. DST appears only once it is complete."""
    if target.is_dir() or not target.parent.is_dir():
        raise InputError(f"{target}: not a file in a folder that exists")
    if target.exists() and not force:
        raise InputError(f"{target}: exists already (--force replaces it)")
    with tempfile.TemporaryDirectory(prefix=".cachepilot-", dir=target.parent) as folder:
        partial = Path(folder) / target.name
        try:
            with Reporter() as reporter, reporter.stage(f"converting {source.name}") as report:
                requests = _models.trace_convert(str(source), str(partial), column, report)
        except _models.ModelsError as error:
            raise InputError(str(error).replace(str(partial), str(target))) from None
        os.replace(partial, target)
    tables.console().print(f"{target}: {requests:,} requests written")
