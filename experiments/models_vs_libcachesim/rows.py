# SPDX-License-Identifier: Apache-2.0
"""Merges rows into results.json for `make bench-models`."""

from collections.abc import Sequence
from pathlib import Path

from experiments.shared import rows
from experiments.shared.rows import Row

from cachepilot.results import Result

__all__ = ["COMMAND", "Row", "merge"]

COMMAND = "make bench-models"


def merge(path: Path, measured: Sequence[Row]) -> list[Result]:
    """Merge `measured` into the file, and return all rows of the file, ordered by metric.

    If any `models.speedup.POLICY` was measured, all were. Rows of an earlier run that were not
    measured again are dropped, because their policy no longer exists.
    """
    families = {row.metric.rpartition(".")[0] for row in measured} - {"models"}

    def is_stale(metric: str) -> bool:
        return metric.rpartition(".")[0] in families

    origin = {"command": COMMAND, "commit": rows.commit(), "machine": rows.machine()}
    return rows.merge(path, measured, origin, is_stale)
