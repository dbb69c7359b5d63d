# SPDX-License-Identifier: Apache-2.0
"""Draws the plots from the rows alone, so that the same rows give the same bytes."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cachepilot.cli.traces.plots import COLOURS, save
from cachepilot.results import Result

MET, SHORT, NEUTRAL, GOAL = COLOURS[0], COLOURS[1], "#999999", COLOURS[6]
# An error of 0 cannot be shown on a logarithmic axis.
LEAST_ERROR = 1e-6


def _of(results: Sequence[Result], family: str) -> dict[str, Result]:
    """Return the rows below `family`, by the last part of their metric."""
    prefix = f"{family}."
    found = [result for result in results if result.metric.startswith(prefix)]
    return {result.metric.removeprefix(prefix): result for result in found}


def _colour(result: Result) -> str:
    return {"met": MET, "short": SHORT, "no goal": NEUTRAL}[result.status]


def _new_axes(bars: int) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.5, 1.2 + 0.28 * bars))
    axes = figure.subplots()
    axes.grid(axis="y", visible=False)
    return figure, axes


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontweight="bold")


def plot_speedup(results: Sequence[Result], path: Path) -> None:
    """Draw a bar per policy against the peer as installed, with whiskers for the spread.

    A diamond is the ratio to the peer with its best settings, and a line is the goal.
    """
    rows = _of(results, "models.speedup")
    best = _of(results, "models.speedup_tuned_alone")
    names = sorted(rows, key=lambda name: rows[name].value)
    if not names:
        return
    figure, axes = _new_axes(len(names))
    values = [rows[name].value for name in names]
    spreads = [rows[name].spread for name in names]
    whiskers = [
        [value - low for value, (low, _) in zip(values, spreads, strict=True)],
        [high - value for value, (_, high) in zip(values, spreads, strict=True)],
    ]
    colours = [_colour(rows[name]) for name in names]
    axes.barh(names, values, xerr=whiskers, color=colours, ecolor="black", capsize=2)
    places = [y for y, name in enumerate(names) if name in best]
    ratios = [best[names[y]].value for y in places]
    label = "best hash table, reader subtracted"
    axes.plot(ratios, places, "D", color=COLOURS[5], markeredgecolor="black", label=label)
    for goal in {rows[name].goal for name in names} - {None}:
        axes.axvline(goal or 0, color=GOAL, linestyle="dashed", lw=1, label=f"goal {goal:g}")
    axes.set_xlabel("times the throughput of libcachesim as installed")
    axes.legend(frameon=False, loc="lower right")
    _title(axes, "Full simulation, Zipf(1.0), one thread")
    save(figure, path)


def plot_error(results: Sequence[Result], path: Path) -> None:
    """Draw a dot per policy for its largest error, and a tick for its goal."""
    rows = _of(results, "models.sim_error_max")
    names = sorted(rows, key=lambda name: -rows[name].value)
    if not names:
        return
    figure, axes = _new_axes(len(names))
    for y, name in enumerate(names):
        row = rows[name]
        axes.plot(max(row.value, LEAST_ERROR), y, "o", color=_colour(row))
        if row.goal is not None:
            axes.plot(row.goal, y, "|", color=GOAL, markersize=11, markeredgewidth=1.5)
    axes.set_yticks(range(len(names)), names)
    axes.set_xscale("log")
    axes.set_xlim(LEAST_ERROR / 2, 1)
    axes.set_xlabel(f"largest error, miss ratio (at {LEAST_ERROR:g}: none); a tick is the goal")
    _title(axes, "Full simulation against policies.tsv, one folio per request")
    save(figure, path)


def plot_regret(results: Sequence[Result], path: Path) -> None:
    """Draw a bar per way of choosing for the mean regret, and a dot for the worst cell."""
    means = _of(results, "models.choice_regret")
    worst = _of(results, "models.choice_regret_max")
    for row in results:
        if row.metric == "models.choice_regret":
            means["by curves"] = row
        if row.metric == "models.choice_regret_max":
            worst["by curves"] = row
    names = sorted(means, key=lambda name: -means[name].value)
    if not names:
        return
    figure, axes = _new_axes(len(names))
    labels = [name.replace("_", " ", 1) for name in names]
    colours = [_colour(means[name]) for name in names]
    axes.barh(labels, [means[name].value for name in names], color=colours, label="mean")
    worsts = [worst[name].value if name in worst else means[name].value for name in names]
    axes.plot(worsts, range(len(names)), "o", color="black", label="worst cell")
    goal = next((row.goal for row in means.values() if row.goal is not None), None)
    if goal is not None:
        axes.axvline(goal, color=GOAL, linestyle="dashed", lw=1, label=f"goal {goal:g}")
    axes.set_xscale("symlog", linthresh=0.01)
    axes.set_xlim(0, 1)
    axes.set_xlabel("miss ratio above the best policy in hindsight")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    _title(axes, "Cost of choosing a policy, recorded traces at 1, 10 and 30%")
    save(figure, path)


def write(results: Sequence[Result], folder: Path) -> None:
    """Write every plot that has rows."""
    plot_speedup(results, folder / "speedup.svg")
    plot_error(results, folder / "sim_error.svg")
    plot_regret(results, folder / "choice_regret.svg")
