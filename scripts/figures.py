#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the measured figures of the documentation from the rows of experiments/*/results.json.

A figure is followed by a comment that names its row. Readers of the page do not see it:

    2.42<!-- autopilot.memory.vs_static -->          the row's value, with as many decimals as shown
    2.47<!-- autopilot.memory.vs_static greatest --> or least, goal, reference, runs
    94<!-- autopilot.harvest.share.10 x100 -->       a share in percent; a figure keeps its sign
    13.2<!-- max models.speedup.* -->                of several rows: max, min, max-met, min-met (of
                                                     those that meet their goal), or the number of
                                                     rows with a goal (rows) and that meet it (met)

Run by the virtual environment. With --check nothing is written, and the exit status is 1 if a
figure differs from its row.
"""

import argparse
import fnmatch
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cachepilot.errors import InputError
from cachepilot.results import Result, scorecard

ROOT = Path(__file__).resolve().parent.parent
FIGURE = re.compile(r"(?P<shown>[+-]?\d[\d,]*(?:\.\d+)?)(?P<after>%?\**)<!-- (?P<row>[^>]*?) -->")
SOURCE = re.compile(
    r"(?:(?P<of>max|min|max-met|min-met|rows|met) )?(?P<metric>[a-z][\w.*]*)"
    r"(?: (?P<which>least|greatest|goal|reference|runs))?(?P<percent> x100)?"
)
READ: dict[str, Callable[[Result], float | None]] = {
    "value": lambda row: row.value,
    "least": lambda row: row.spread[0],
    "greatest": lambda row: row.spread[1],
    "goal": lambda row: row.goal,
    "reference": lambda row: row.reference_value,
    "runs": lambda row: row.runs,
}


@dataclass(frozen=True)
class Rows:
    """All measured rows."""

    rows: tuple[Result, ...]

    def value(self, source: str) -> float:
        """Return the value of a figure's comment. Raises InputError if no row has it."""
        found = SOURCE.fullmatch(source)
        if found is None:
            raise InputError(f"{source!r}: does not name a row (see scripts/figures.py)")
        rows = [row for row in self.rows if fnmatch.fnmatchcase(row.metric, found["metric"])]
        if not rows:
            raise InputError(f"{found['metric']}: no row of experiments/*/results.json")
        read = READ[found["which"] or "value"]
        value = _of_several(found["of"], rows, read) if found["of"] else _of_one(rows, read, source)
        return value * 100 if found["percent"] else value


def _known(rows: list[Result], read: Callable[[Result], float | None]) -> list[float]:
    return [value for value in map(read, rows) if value is not None]


def _of_several(of: str, rows: list[Result], read: Callable[[Result], float | None]) -> float:
    met = [row for row in rows if row.status == "met"]
    if of in ("rows", "met"):
        return len(met if of == "met" else [row for row in rows if row.goal is not None])
    values = _known(met if of.endswith("-met") else rows, read)
    if not values:
        raise InputError(f"{rows[0].metric}: no row with a value for '{of}'")
    return max(values) if of.startswith("max") else min(values)


def _of_one(rows: list[Result], read: Callable[[Result], float | None], source: str) -> float:
    values = _known(rows, read)
    if len(rows) != 1 or not values:
        raise InputError(f"{source}: matches {len(values)} figures, must match one")
    return values[0]


def shown_as(value: float, like: str) -> str:
    """Return a value with the decimals and the sign of the text that it replaces."""
    decimals = len(like.partition(".")[2])
    sign = "+" if like.startswith("+") else ""
    return f"{value:{sign},.{decimals}f}"


def rewritten(text: str, rows: Rows) -> str:
    """Return a page with the figures of its rows. Raises InputError for a comment without a row."""

    def one(found: re.Match[str]) -> str:
        value = shown_as(rows.value(found["row"]), found["shown"])
        return f"{value}{found['after']}<!-- {found['row']} -->"

    return FIGURE.sub(one, text)


def differences(text: str, rows: Rows) -> Iterator[str]:
    """Yield one line for each figure that differs from its row, with the line of the page."""
    for number, line in enumerate(text.splitlines(), start=1):
        for found in FIGURE.finditer(line):
            value = shown_as(rows.value(found["row"]), found["shown"])
            if value != found["shown"]:
                yield f"{number}: {found['shown']} is shown, {found['row']} is {value}"


def pages() -> list[Path]:
    """Return the pages that show figures."""
    experiments = sorted((ROOT / "experiments").rglob("README.md"))
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *experiments]


def main() -> int:
    """Run the command line. Return the exit status."""
    parser = argparse.ArgumentParser(description="Writes measured figures into the documentation.")
    parser.add_argument("--check", action="store_true", help="compare without writing")
    check = parser.parse_args().check
    rows = Rows(tuple(scorecard(ROOT / "experiments")))
    status = 0
    for page in pages():
        text = page.read_text("utf-8")
        if not check:
            page.write_text(rewritten(text, rows), "utf-8")
            continue
        for line in differences(text, rows):
            print(f"{page.relative_to(ROOT)}:{line}; run scripts/figures.py")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
