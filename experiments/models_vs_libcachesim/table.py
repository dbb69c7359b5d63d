# SPDX-License-Identifier: Apache-2.0
"""table.md: every row of results.json, by family of metrics."""

from collections.abc import Sequence
from pathlib import Path

from cachepilot.results import Result

HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Models against libcachesim: results

Written by `make bench-models` from `results.json`; README.md says what is measured and how.
"""
COLUMNS = (
    "| metric | value | goal | | spread | runs | reference |\n|---|---:|---:|---|---|---:|---|"
)


def _family(result: Result) -> str:
    """`speedup` of `models.speedup.lru`."""
    return result.metric.split(".")[1]


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
    """Writes the table: figures that stand alone first, then those of several policies."""
    families = {_family(result) for result in results if result.metric.count(".") > 1}
    sections: dict[str, list[Result]] = {"single figures": []}
    for result in results:
        name = _family(result)
        sections.setdefault(name if name in families else "single figures", []).append(result)
    blocks = [HEAD]
    machines = dict.fromkeys(f"{result.machine}, commit {result.commit}" for result in results)
    blocks.append("".join(f"- {machine}\n" for machine in machines))
    for name, rows in sections.items():
        if rows:
            blocks.append("\n".join([f"## {name}\n", COLUMNS, *map(_line, rows), ""]))
    path.write_text("\n".join(blocks), "utf-8")
