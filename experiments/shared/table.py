# SPDX-License-Identifier: Apache-2.0
"""Formats rows of results.json as lines of a Markdown table."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from experiments.shared.rows import Row, commit, machine, merge

from cachepilot.results import Result

COLUMNS = (
    "| metric | value | goal | | spread | runs | reference |\n|---|---:|---:|---|---|---:|---|"
)


def number(value: float) -> str:
    """Format with four significant digits; from 1,000 on without decimals."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def line(result: Result) -> str:
    """Return one row of the table under COLUMNS."""
    sign = "≥" if result.better == "higher" else "≤"
    goal = "" if result.goal is None else f"{sign} {number(result.goal)}"
    status = {"short": "**short**", "met": "met", "no goal": ""}[result.status]
    low, high = result.spread
    spread = "" if result.runs == 1 else f"{number(low)} to {number(high)}"
    reference = result.reference or ""
    if result.reference_value is not None:
        reference += f": {number(result.reference_value)}"
    fields = (
        f"`{result.metric}`",
        f"{number(result.value)} {result.unit}",
        goal,
        status,
        spread,
        str(result.runs),
        reference,
    )
    return f"| {' | '.join(fields)} |"


def section(title: str, results: Sequence[Result]) -> str:
    """Return a heading and its table."""
    return "\n".join([f"## {title}\n", COLUMNS, *map(line, results), ""])


def write(path: Path, head: str, results: Sequence[Result]) -> None:
    """Write the file beside results.json: a head, the origins of the rows, and one table."""
    path.write_text("\n".join([head, origins(results), section("Results", results)]), "utf-8")


def publish(
    folder: Path,
    head: str,
    rows: Sequence[Row],
    command: str,
    is_stale: Callable[[str], bool],
) -> None:
    """Merge new rows into results.json of a folder, and write table.md beside it.

    See `rows.merge` for `is_stale`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    origin = {"command": command, "commit": commit(), "machine": machine()}
    write(folder / "table.md", head, merge(folder / "results.json", rows, origin, is_stale))


def origins(results: Iterable[Result]) -> str:
    """Return a list of the machines and commits that the rows come from."""
    machines = dict.fromkeys(f"{result.machine}, commit {result.commit}" for result in results)
    return "".join(f"- {machine}\n" for machine in machines)
