# SPDX-License-Identifier: Apache-2.0
"""Compares miss ratios of full simulation, batch 1, with an independent one (policies.tsv)."""

from cachepilot import _models, manifest

from .context import Context
from .rows import Row
from .traces import Reference, recorded, references

# Policies that must agree, and policies that may also be better than the reference.
EXACT_GOALS = {"fifo": 0.0005, "lru": 0.0005, "mru": 0.0005, "clock": 0.002, "sieve": 0.002}
OR_LOWER_GOALS = {"s3fifo": 0.01, "twoq": 0.01, "arc": 0.01, "lirs": 0.01, "wtinylfu": 0.01}


def _error(cell: Reference, miss_ratio: float) -> float:
    difference = miss_ratio - cell.miss_ratio
    return max(0.0, difference) if cell.policy in OR_LOWER_GOALS else abs(difference)


def run(context: Context) -> list[Row]:
    """Return, per policy, the largest error over all cells, and its cell."""
    cells = references()
    columns = {cell.policy for cell in cells}
    names = [name for name in [*manifest.policies(), manifest.OPT] if name in columns]
    measured: dict[tuple[str, str, int], float] = {}
    for trace in recorded(context):
        context.say(f"  accuracy: {trace.name}")
        for result in _models.simulate(str(trace.path), names, trace.sizes_pages, batch=1):
            measured[trace.name, result.policy, result.size_pages] = result.miss_ratio
    rows = []
    for name in names:
        errors = [
            (_error(cell, measured[key]), cell)
            for cell in cells
            if cell.policy == name and (key := (cell.trace, name, cell.size_pages)) in measured
        ]
        error, worst = max(errors, key=lambda pair: pair[0])
        sense = "excess over" if name in OR_LOWER_GOALS else "difference from"
        rows.append(
            Row(
                f"models.sim_error_max.{name}",
                error,
                "miss ratio",
                goal=(EXACT_GOALS | OR_LOWER_GOALS).get(name),
                reference=f"{sense} policies.tsv in {len(errors)} cells, "
                f"worst {worst.trace} at {worst.percent}%, {worst.size_pages} pages",
                reference_value=worst.miss_ratio,
            )
        )
    return rows
