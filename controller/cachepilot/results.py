# SPDX-License-Identifier: Apache-2.0
"""Rows of `experiments/NAME/results.json`: reading, checking and sorting them."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cachepilot.errors import InputError

_TEXTS = ("metric", "unit", "command", "commit", "machine")
_OPTIONAL = ("goal", "reference", "reference_value")
_KEYS = frozenset((*_TEXTS, *_OPTIONAL, "value", "better", "runs", "spread"))


@dataclass(frozen=True)
class Result:
    """One measured figure. `spread` is the least and the greatest value of its `runs` runs."""

    experiment: str
    metric: str
    value: float
    unit: str
    better: str
    goal: float | None
    reference: str | None
    reference_value: float | None
    runs: int
    spread: tuple[float, float]
    command: str
    commit: str
    machine: str

    @property
    def shortfall(self) -> float:
        """The shortfall as a share of the goal; 0 if the goal is met or there is none."""
        if self.goal is None:
            return 0.0
        gap = self.goal - self.value if self.better == "higher" else self.value - self.goal
        return max(0.0, gap / max(abs(self.goal), 1e-12))

    @property
    def status(self) -> str:
        """`short`, `met`, or `no goal`."""
        if self.goal is None:
            return "no goal"
        return "short" if self.shortfall > 0 else "met"

    def as_json(self) -> dict[str, Any]:
        """Return the row with its experiment and status, as plain JSON values."""
        return {**asdict(self), "status": self.status}


def _is_number(value: object) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and math.isfinite(value)  # type: ignore[arg-type]


def _problem(row: Mapping[str, Any]) -> str | None:
    missing = sorted(_KEYS - row.keys() - set(_OPTIONAL))
    unknown = sorted(row.keys() - _KEYS)
    spread = row.get("spread")
    runs = row.get("runs")
    checks = {
        f"missing {', '.join(missing)}": not missing,
        f"unknown key {', '.join(unknown)}": not unknown,
        "value: must be a finite number": _is_number(row.get("value")),
        "better: allowed are 'higher' and 'lower'": row.get("better") in ("higher", "lower"),
        "runs: must be an integer of at least 1": type(runs) is int and runs >= 1,
        "spread: must be [least, greatest]": isinstance(spread, list)
        and len(spread) == 2
        and all(map(_is_number, spread))
        and spread[0] <= spread[1],
        "reference: must be text or null": isinstance(row.get("reference"), str | None),
    }
    for key in _TEXTS:
        checks[f"{key}: must be text that is not empty"] = (
            isinstance(row.get(key), str) and row[key] != ""
        )
    for key in ("goal", "reference_value"):
        checks[f"{key}: must be a number or null"] = row.get(key) is None or _is_number(row[key])
    return next((problem for problem, fine in checks.items() if not fine), None)


def parse_row(row: object, experiment: str, where: str) -> Result:
    """Return one row after checking it; InputError starts with `where` and names the key."""
    if not isinstance(row, dict):
        raise InputError(f"{where}: must be an object")
    problem = _problem(row)
    if problem is not None:
        raise InputError(f"{where}: {problem}")
    values = {key: row.get(key) for key in _KEYS}
    values["spread"] = tuple(row["spread"])
    return Result(experiment=experiment, **values)  # type: ignore[arg-type]


def read_results(path: Path) -> list[Result]:
    """Return the rows of one results file; InputError names the file, the row and the key."""
    try:
        rows = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(rows, list):
        raise InputError(f"{path}: must be an array of rows")
    experiment = path.parent.name
    return [parse_row(row, experiment, f"{path}: row {i}") for i, row in enumerate(rows, start=1)]


def scorecard(experiments: Path) -> list[Result]:
    """Return every row under `experiments`: largest shortfall first, then met, then no goal."""
    if not experiments.is_dir():
        raise InputError(f"{experiments}: no such folder of experiments")
    rows = [
        row for path in sorted(experiments.glob("*/results.json")) for row in read_results(path)
    ]
    order = {"short": 0, "met": 1, "no goal": 2}
    return sorted(rows, key=lambda row: (order[row.status], -row.shortfall, row.metric))
