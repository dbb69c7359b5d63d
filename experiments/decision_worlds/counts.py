# SPDX-License-Identifier: Apache-2.0
"""Rows of counts over many tenants."""

from collections.abc import Callable, Sequence
from statistics import median

from experiments.decision_worlds.nodes import TENANTS, Course
from experiments.shared.rows import Row

Runs = Sequence[Sequence[Course]]
"""Runs of the tenants of each node."""
HOUR_S = 3600.0


def everyone(runs: Runs) -> list[Course]:
    """Return the tenants of all nodes."""
    return [course for run in runs for course in run]


def share(
    metric: str, runs: Runs, is_such: Callable[[Course], bool], goal: float | None = None
) -> Row:
    """Return the share of tenants for which a condition holds; the spread is that of the nodes."""
    parts = [[is_such(course) for course in run] for run in runs]
    found, tenants = sum(map(sum, parts)), sum(map(len, parts))
    shares = [100 * sum(part) / len(part) for part in parts]
    return Row(
        metric,
        100 * found / tenants,
        "%",
        goal=goal,
        reference=f"tenants, of {tenants}, {len(parts[0])} in a run",
        reference_value=found,
        runs=len(runs),
        spread=(min(shares), max(shares)),
    )


def rate(metric: str, runs: Runs, counted: Callable[[Course], int], what: str) -> Row:
    """Return events per 1,000 tenant-hours; the spread is that of the nodes."""
    events = [sum(map(counted, run)) for run in runs]
    hours = [sum(course.seconds for course in run) / HOUR_S for run in runs]
    rates = [1000 * some / spent for some, spent in zip(events, hours, strict=True)]
    return Row(
        metric,
        1000 * sum(events) / sum(hours),
        "per 1,000 tenant-hours",
        reference=f"{what} in {sum(hours):.4g} tenant-hours, {TENANTS} tenants in a run",
        reference_value=sum(events),
        runs=len(runs),
        spread=(min(rates), max(rates)),
    )


def worst_and_median(
    metric: str, values: Sequence[float], unit: str, better: str = "lower", **others: object
) -> list[Row]:
    """Return two rows: the worst and the median of values by tenant."""
    ends = (min(values), max(values))
    worst = ends[1] if better == "lower" else ends[0]
    found = {"worst": worst, "median": median(values)}
    return [
        Row(f"{metric}.{name}", value, unit, better, runs=len(values), spread=ends, **others)  # type: ignore[arg-type]
        for name, value in found.items()
    ]
