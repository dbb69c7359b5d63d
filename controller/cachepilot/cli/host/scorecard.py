# SPDX-License-Identifier: Apache-2.0
"""`cachepilot scorecard`: every figure of the experiments compared with its goal."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from cachepilot.cli.terminal import options, tables
from cachepilot.results import Result, scorecard


def command(
    experiments: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder that holds the experiments.")
    ] = Path("experiments"),
    as_json: options.JsonOption = False,
) -> None:
    """Print the results of the experiments.

    Those furthest short of their goal come first, then those that met it.
    """
    rows = scorecard(experiments)
    if as_json:
        tables.print_json([row.as_json() for row in rows])
        return
    out = tables.console()
    if not rows:
        out.print(f"No results under {experiments}.")
        return
    table = tables.new_table()
    tables.add_columns(table, ["status", "metric"], "left")
    tables.add_columns(table, ["value", "goal"])
    tables.add_columns(table, ["unit"], "left")
    if out.width >= tables.WIDE_COLUMNS:
        tables.add_columns(table, ["spread", "runs"])
        table.add_column("reference")
    for row in rows:
        table.add_row(*_fields(row)[: len(table.columns)])
    out.print(table)
    short = sum(row.status == "short" for row in rows)
    met = sum(row.status == "met" for row in rows)
    out.print(f"{len(rows)} results: {short} short of their goal, {met} met.")


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _goal(row: Result) -> str:
    if row.goal is None:
        return ""
    return f"{'≥' if row.better == 'higher' else '≤'} {_number(row.goal)}"


def _fields(row: Result) -> list[str | Text]:
    reference = row.reference or ""
    if row.reference_value is not None:
        reference = f"{reference}: {_number(row.reference_value)}"
    return [
        tables.best(row.status, row.status == "short"),
        tables.best(row.metric, row.status == "short"),
        _number(row.value),
        _goal(row),
        row.unit,
        f"{_number(row.spread[0])} to {_number(row.spread[1])}",
        str(row.runs),
        reference,
    ]
