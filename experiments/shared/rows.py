# SPDX-License-Identifier: Apache-2.0
"""Rows of results.json: creates them, checks them, merges them with earlier runs, writes them."""

import json
import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from cachepilot.results import Result, parse_row, read_results

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Row:
    """One figure. `spread` is the least and the greatest of `runs` runs.

    `value` is their median. In a metric that ends in `.worst`, it is the worst of them.
    """

    metric: str
    value: float
    unit: str
    better: str = "lower"
    goal: float | None = None
    reference: str | None = None
    reference_value: float | None = None
    runs: int = 1
    spread: tuple[float, float] | None = None

    @classmethod
    def worst_of(
        cls,
        metric: str,
        values: Sequence[float],
        unit: str,
        goal: float | None = None,
        **others: Any,
    ) -> "list[Row]":
        """Return the median of several runs, and `METRIC.worst`, to which the goal applies."""
        middle = cls.of_runs(metric, values, unit, **others)
        worst = min(values) if middle.better == "higher" else max(values)
        return [middle, replace(middle, metric=f"{metric}.worst", value=worst, goal=goal)]

    @classmethod
    def of_runs(cls, metric: str, values: Sequence[float], unit: str, **others: Any) -> "Row":
        """Return the median of several runs, and their spread."""
        spread = (min(values), max(values))
        return cls(metric, median(values), unit, runs=len(values), spread=spread, **others)


def machine() -> str:
    """Return the processor model and the number of cores."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{model}, {os.cpu_count()} cores"


def commit(root: Path = ROOT) -> str:
    """Return the commit that is checked out, with `-dirty` if tracked sources differ from it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!experiments")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("-dirty" if changed else "")


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def as_json(row: Row, origin: dict[str, str]) -> dict[str, Any]:
    """Return the row as in results.json. `origin` has the command, commit and machine."""
    fields = asdict(row)
    low, high = row.spread or (row.value, row.value)
    fields["value"] = _rounded(row.value)
    fields["spread"] = [_rounded(low), _rounded(high)]
    if row.reference_value is not None:
        fields["reference_value"] = _rounded(row.reference_value)
    return {**fields, **origin}


def merge(
    path: Path,
    rows: Sequence[Row],
    origin: dict[str, str],
    is_stale: Callable[[str], bool] = lambda _: False,
) -> list[Result]:
    """Merge `rows` into the file, and return all rows of the file, ordered by metric.

    A row replaces the one with the same metric. `is_stale` selects rows of earlier runs to drop.
    """
    new = {row.metric: as_json(row, origin) for row in rows}
    old = json.loads(path.read_text("utf-8")) if path.is_file() else []
    kept = {row["metric"]: row for row in old if not is_stale(row["metric"])}
    merged = sorted((kept | new).values(), key=lambda row: str(row["metric"]))
    for row in merged:
        parse_row(row, path.parent.name, f"{path}: {row['metric']}")
    lines = ",\n".join(json.dumps(row) for row in merged)
    partial = path.with_suffix(".partial")
    partial.write_text(f"[\n{lines}\n]\n", "utf-8")
    partial.replace(path)
    return read_results(path)
