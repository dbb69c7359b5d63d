# SPDX-License-Identifier: Apache-2.0
"""Rows of results.json as lines of a Markdown table."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from experiments.shared.rows import Row, commit, machine, merge

from cachepilot.results import Result

COLUMNS = (
    "| metric | value | goal | | spread | runs | reference |\n|---|---:|---:|---|---|---:|---|"
)


def number(value: float) -> str:
    """Four significant digits, thousands whole."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def line(result: Result) -> str:
    """One row under COLUMNS."""
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
    """A heading and its table."""
    return "\n".join([f"## {title}\n", COLUMNS, *map(line, results), ""])


def write(path: Path, head: str, results: Sequence[Result]) -> None:
    """The file beside results.json: a head, where the rows come from, and one table of them."""
    path.write_text("\n".join([head, origins(results), section("Results", results)]), "utf-8")


def publish(
    folder: Path,
    head: str,
    rows: Sequence[Row],
    command: str,
    is_stale: Callable[[str], bool],
) -> None:
    """Merges what was measured now into results.json of a folder, and writes table.md beside it.

    See `rows.merge` for `is_stale`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    origin = {"command": command, "commit": commit(), "machine": machine()}
    write(folder / "table.md", head, merge(folder / "results.json", rows, origin, is_stale))


def origins(results: Iterable[Result]) -> str:
    """A list of the machines and commits that the rows come from."""
    machines = dict.fromkeys(f"{result.machine}, commit {result.commit}" for result in results)
    return "".join(f"- {machine}\n" for machine in machines)
