# SPDX-License-Identifier: Apache-2.0
"""Miss ratios along a trace: one for each window of requests."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cachepilot import _models
from cachepilot.cli.terminal import tables

SPARKLINE_WIDTH = 40


def ratios(result: _models.SimResult) -> NDArray[np.float64]:
    """Return the miss ratio of each window, 0 to 1, shape (windows,)."""
    return result.window_misses() / result.window_requests()


def windows_object(result: _models.SimResult) -> dict[str, Any]:
    """Return the windows as three JSON lists of equal length; {} if there are none."""
    if not len(result.window_requests()):
        return {}
    return {
        "window_requests": result.window_requests().tolist(),
        "window_misses": result.window_misses().tolist(),
        "window_miss_ratio": ratios(result).tolist(),
    }


def _merged(result: _models.SimResult) -> list[float]:
    """Return the miss ratios of at most SPARKLINE_WIDTH groups of whole windows."""
    starts = np.unique(np.linspace(0, len(ratios(result)), SPARKLINE_WIDTH + 1)[:-1].astype(int))
    misses = np.add.reduceat(result.window_misses(), starts)
    merged: list[float] = (misses / np.add.reduceat(result.window_requests(), starts)).tolist()
    return merged


def print_windows(results: list[_models.SimResult], window_requests: int) -> None:
    """Print a row for each policy: median, lowest and highest window, and a sparkline of all."""
    count = len(results[0].window_requests())
    table = tables.new_table(f"{count:,} windows of {window_requests:,} requests")
    tables.add_columns(table, ["policy"], "left")
    tables.add_columns(table, ["median", "least", "greatest", "in window"])
    tables.add_columns(table, ["from first to last, 0 to 1"], "left")
    for result in sorted(results, key=lambda result: result.miss_ratio):
        values = ratios(result)
        table.add_row(
            result.policy,
            f"{np.median(values):.4f}",
            f"{values.min():.4f}",
            f"{values.max():.4f}",
            f"{values.argmax() + 1:,}",
            tables.sparkline(_merged(result)),
        )
    tables.console().print(table)
