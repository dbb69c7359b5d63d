# SPDX-License-Identifier: Apache-2.0
"""table.md: every row of results.json, by family of metrics."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from cachepilot.results import Result

HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Models against libcachesim: results

Written by `make bench-models` from `results.json`; README.md says what is measured and how.
"""
COLUMNS = (
    "| metric | value | goal | | spread | runs | reference |\n|---|---:|---:|---|---|---:|---|"
)


def family(result: Result) -> str:
    """`models.speedup` of `models.speedup.lru`; a metric of two parts is its own."""
    return ".".join(result.metric.split(".")[:2])


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _line(result: Result) -> str:
    sign = "≥" if result.better == "higher" else "≤"
    goal = "" if result.goal is None else f"{sign} {_number(result.goal)}"
    status = {"short": "**short**", "met": "met", "no goal": ""}[result.status]
    low, high = result.spread
    spread = "" if result.runs == 1 else f"{_number(low)} to {_number(high)}"
    reference = result.reference or ""
    if result.reference_value is not None:
        reference += f": {_number(result.reference_value)}"
    fields = (
        f"`{result.metric}`",
        f"{_number(result.value)} {result.unit}",
        goal,
        status,
        spread,
        str(result.runs),
        reference,
    )
    return f"| {' | '.join(fields)} |"


def write(results: Sequence[Result], path: Path) -> None:
    """Writes the table; `results` are in the order of their metrics."""
    blocks = [HEAD]
    machines = dict.fromkeys(f"{result.machine}, commit {result.commit}" for result in results)
    blocks.append("".join(f"- {machine}\n" for machine in machines))
    for name, rows in groupby(sorted(results, key=lambda row: (family(row), row.metric)), family):
        lines = "\n".join(map(_line, rows))
        blocks.append(f"## {name.removeprefix('models.')}\n\n{COLUMNS}\n{lines}\n")
    path.write_text("\n".join(blocks), "utf-8")
