# SPDX-License-Identifier: Apache-2.0
"""Compares miniature with full simulation of every policy, and the regret of choosing by it."""

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cachepilot import _models, manifest
from cachepilot.choice import BY_CURVES, Cell, choice_rate, regrets

from .context import Context
from .rows import Row
from .traces import Recorded, recorded

SAMPLED_PAGES = 8192
POINTS = 16
MAE_GOAL = 0.015
REGRET_GOAL = 0.01


def _grid(footprint_pages: int) -> NDArray[np.uint64]:
    """Return 16 sizes with a constant factor between them, from 1% to 100% of the footprint."""
    first = max(1.0, footprint_pages / 100)
    sizes = np.geomspace(first, footprint_pages, POINTS).round()
    return np.unique(sizes.astype(np.uint64))


def _rate(footprint_pages: int) -> float:
    """Return a rate that leaves at least 8,192 pages.

    Three standard deviations are added, as in choice_rate.
    """
    wanted = SAMPLED_PAGES + 3 * sqrt(SAMPLED_PAGES)
    return min(1.0, wanted / footprint_pages)


def _both(
    trace: Recorded, sizes: NDArray[np.uint64], rate: float
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    """Return miss ratios per policy at each size, full and in miniature, simulated on all cores."""
    names = list(manifest.policies())
    results = _models.simulate(str(trace.path), names, [int(size) for size in sizes])
    ratios = np.array([result.miss_ratio for result in results]).reshape(len(names), -1)
    curves = _models.mrc_minisim(str(trace.path), sizes, names, rate=rate)
    full = dict(zip(names, ratios, strict=True))
    return full, {curve.policy: curve.miss_ratio for curve in curves}


def run_minisim(context: Context) -> list[Row]:
    """Return the mean absolute error over policies, traces and sizes.

    There is also a mean over only the traces that were sampled, with R < 1.
    """
    errors: dict[tuple[str, str], float] = {}
    sampled: list[str] = []
    whole: list[str] = []
    for trace in recorded(context):
        rate = _rate(trace.footprint_pages)
        context.say(f"  minisim: {trace.name} at R = {rate:.4f}")
        full, mini = _both(trace, _grid(trace.footprint_pages), rate)
        (sampled if rate < 1 else whole).append(trace.name)
        for name, ratios in full.items():
            errors[name, trace.name] = float(np.abs(mini[name] - ratios).mean())
    names = list(manifest.policies())
    (policy, trace_name), worst = max(errors.items(), key=lambda item: item[1])
    reference = f"full simulation, {POINTS} sizes, batch 32"

    def row(metric: str, values: Sequence[float], said: str, goal: float | None = MAE_GOAL) -> Row:
        mean = float(np.mean(values))
        return Row(metric, mean, "miss ratio", goal=goal, reference=f"{reference}; {said}")

    said_all = f"{len(sampled) + len(whole)} traces, {len(whole)} of them whole (R = 1, no error)"
    rows = [
        row("models.minisim_mae", list(errors.values()), said_all),
        row("models.minisim_max", [worst], f"worst {policy} on {trace_name}", None),
    ]
    for name in names:
        of_policy = [error for (policy, _), error in errors.items() if policy == name]
        rows.append(row(f"models.minisim_mae.{name}", of_policy, said_all))
    if sampled:
        values = [error for (_, trace), error in errors.items() if trace in sampled]
        said = f"only the {len(sampled)} traces with R < 1"
        rows.append(row("models.minisim_mae_sampled", values, said))
    return rows


def _cells(trace: Recorded, rate: float) -> list[Cell]:
    sizes = np.array(trace.sizes_pages, dtype=np.uint64)
    full, mini = _both(trace, sizes, rate)
    return [
        Cell(
            trace=trace.name,
            size_pages=size,
            measured={name: float(ratios[i]) for name, ratios in full.items()},
            predicted={name: float(ratios[i]) for name, ratios in mini.items()},
        )
        for i, size in enumerate(trace.sizes_pages)
    ]


def _regret_rows(family: str, cells: Sequence[Cell], said: str) -> list[Row]:
    """Return the mean regret of each way of choosing, and the worst of the cells."""
    rows = []
    for regret in regrets(cells):
        by_curves = regret.strategy == BY_CURVES
        suffix = "" if by_curves else f".{regret.strategy.replace(' ', '_')}"
        reference = f"the best policy in hindsight, {len(cells)} cells, {said}"
        where = f"; worst {regret.worst_trace} at {regret.worst_size_pages} pages"
        rows.append(
            Row(
                f"{family}{suffix}",
                regret.mean,
                "miss ratio",
                goal=REGRET_GOAL if by_curves else None,
                reference=reference,
            )
        )
        rows.append(
            Row(f"{family}_max{suffix}", regret.worst, "miss ratio", reference=reference + where)
        )
    return rows


def run_choice(context: Context) -> list[Row]:
    """Return the regret over every trace at 1, 10 and 30%, and over only the traces with R < 1."""
    cells: list[Cell] = []
    sampled: list[Cell] = []
    for trace in recorded(context):
        rate = choice_rate(trace.footprint_pages)
        context.say(f"  choice: {trace.name} at R = {rate:.4f}")
        found = _cells(trace, rate)
        cells += found
        if rate < 1:
            sampled += found
    rows = _regret_rows("models.choice_regret", cells, "all traces")
    if sampled:
        rows += _regret_rows("models.choice_regret_sampled", sampled, "traces with R < 1")
    return rows
