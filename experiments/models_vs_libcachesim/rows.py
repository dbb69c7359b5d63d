# SPDX-License-Identifier: Apache-2.0
"""Rows of results.json as `make bench-models` merges them."""

from collections.abc import Sequence
from pathlib import Path

from experiments.shared import rows
from experiments.shared.rows import Row

from cachepilot.results import Result

__all__ = ["COMMAND", "Row", "merge"]

COMMAND = "make bench-models"


def merge(path: Path, measured: Sequence[Row]) -> list[Result]:
    """Puts `measured` into the file and returns all it holds then, ordered by metric.

    Where one `models.speedup.POLICY` was measured, all were: those of an earlier run that were not
    measured again are dropped, their policy is gone.
    """
    families = {row.metric.rpartition(".")[0] for row in measured} - {"models"}

    def is_stale(metric: str) -> bool:
        return metric.rpartition(".")[0] in families

    origin = {"command": COMMAND, "commit": rows.commit(), "machine": rows.machine()}
    return rows.merge(path, measured, origin, is_stale)
