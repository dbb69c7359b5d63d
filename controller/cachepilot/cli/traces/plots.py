# SPDX-License-Identifier: Apache-2.0
"""Plots as files, readable with seventeen lines and with any kind of colour vision."""

import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from cachepilot import _models
from cachepilot.choice import Cell
from cachepilot.sizes import PAGE_BYTES, UNITS_BYTES, human_bytes

# Okabe and Ito, "Color Universal Design" (2008), without yellow, which is invisible on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
LINES = ("solid", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
MARKERS = ("", "o", "^", "s")
FEW_CURVES = 6

mpl.use("Agg")
mpl.rcParams.update({"svg.hashsalt": "cachepilot", "font.size": 9, "axes.grid": True})
mpl.rcParams.update({"grid.alpha": 0.3, "axes.spines.right": False, "axes.axisbelow": True})
logging.getLogger("matplotlib").setLevel(logging.ERROR)


def save(figure: Figure, path: Path) -> None:
    """Write the figure atomically: `path` is either the whole new file or unchanged."""
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
    with tempfile.TemporaryDirectory(prefix=".cachepilot-", dir=path.parent) as folder:
        partial = Path(folder) / path.name
        figure.savefig(partial, dpi=150, bbox_inches="tight", metadata=metadata)
        os.replace(partial, path)


def _bytes_axis(axes: Axes, largest_pages: float) -> None:
    unit, scale = "KiB", UNITS_BYTES["KiB"]
    for name, unit_bytes in UNITS_BYTES.items():
        if largest_pages * PAGE_BYTES >= 2 * unit_bytes:
            unit, scale = name, unit_bytes
    pages_per_unit = scale / PAGE_BYTES
    top = axes.secondary_xaxis(
        "top",
        functions=(
            lambda pages: np.asarray(pages, dtype=float) / pages_per_unit,
            lambda units: np.asarray(units, dtype=float) * pages_per_unit,
        ),
    )
    top.set_xlabel(f"cache size ({unit})")


def _style(rank: int) -> dict[str, Any]:
    """Return a line style that distinguishes this rank from all others, in colour and in grey."""
    group, colour = divmod(rank, len(COLOURS))
    return {
        "color": COLOURS[colour],
        "linestyle": LINES[group % len(LINES)],
        "marker": MARKERS[group % len(MARKERS)],
        "markersize": 4,
        "linewidth": 1.4,
    }


def _every(rank: int, points: int) -> tuple[int, int]:
    """Return which points of a line have markers: few, and other ones than on the next line."""
    step = max(points // 7, 1)
    return rank * 3 % step, step


def _draw_curves(axes: Axes, curves: Sequence[_models.Curve]) -> None:
    for rank, curve in enumerate(curves):
        style = _style(rank)
        sizes = curve.sizes_pages.astype(np.float64)
        label = f"{curve.policy}  {curve.miss_ratio.mean():.1%}"
        markevery = _every(rank, len(sizes))
        axes.plot(sizes, curve.miss_ratio, label=label, markevery=markevery, **style)
        bar = np.nan_to_num(curve.error_bar())
        if bar.any():
            low, high = curve.miss_ratio - bar, curve.miss_ratio + bar
            colour = style["color"]
            axes.fill_between(
                sizes, low.clip(0, 1), high.clip(0, 1), color=colour, alpha=0.12, linewidth=0
            )
    axes.set(ylabel="miss ratio", ylim=(0, None))


def _draw_regret(axes: Axes, curves: Sequence[_models.Curve]) -> None:
    """Draw each curve's distance from the lowest; of many curves, the most distant are cut off."""
    regret = np.array([curve.miss_ratio for curve in curves])
    regret -= regret.min(axis=0)
    farthest = regret.max(axis=1)
    share = 1.0 if len(curves) <= FEW_CURVES else 0.8
    top = max(float(np.quantile(farthest, share)) * 1.05, 0.005)
    for rank, curve in enumerate(curves):
        markevery = _every(rank, len(curve.sizes_pages))
        axes.plot(curve.sizes_pages, regret[rank], markevery=markevery, **_style(rank))
    cut = f" (cut at {top:.0%})" if regret.max() > top else ""
    axes.set(ylabel=f"above the best{cut}", ylim=(-0.02 * top, top))


def plot_curves(curves: Sequence[_models.Curve], title: str, path: Path) -> None:
    """Plot one line per curve with a band for its error bar, the best on average first.

    If several curves have the same sizes, a second panel shows their distance from the best at each
    size, where lines that lie close together can be distinguished.
    """
    curves = sorted(curves, key=lambda curve: float(curve.miss_ratio.mean()))
    comparable = len(curves) > 1 and all(
        np.array_equal(curve.sizes_pages, curves[0].sizes_pages) for curve in curves
    )
    figure = Figure(figsize=(10, 8.5 if comparable else 5.5), layout="constrained")
    ratios = (5, 4) if comparable else (1,)
    panels = figure.subplots(
        len(ratios), sharex=True, squeeze=False, gridspec_kw={"height_ratios": ratios}
    )[:, 0]
    largest = max(float(curve.sizes_pages[-1]) for curve in curves)
    _draw_curves(panels[0], curves)
    if comparable:
        _draw_regret(panels[1], curves)
    for axes in panels:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    panels[-1].set(xlabel="cache size (pages)", xlim=(0, largest))
    panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    _bytes_axis(panels[0], largest)
    methods = ", ".join(dict.fromkeys(curve.method for curve in curves))
    panels[0].set_title(f"{title} ({methods})", loc="left", fontweight="bold")
    handles, labels = panels[0].get_legend_handles_labels()
    heading = "mean miss ratio"
    figure.legend(
        handles, labels, loc="outside right center", frameon=False, handlelength=4, title=heading
    )
    save(figure, path)


def plot_comparison(cells: Sequence[Cell], path: Path) -> None:
    """Plot a map of regret: a row per trace and size, a column per policy, the best first.

    Every field has the miss ratio as text. Its shade is the miss ratio above the best of its row,
    and is darkest from the 90th percentile on, so that one hopeless policy does not make all others
    look equal.
    """
    regret = {name: np.mean([cell.regret(name) for cell in cells]) for name in cells[0].measured}
    names = sorted(regret, key=lambda name: float(regret[name]))
    values = np.array([[cell.regret(name) for name in names] for cell in cells])
    figure = Figure(figsize=(2.6 + 0.62 * len(names), 1.4 + 0.27 * len(cells)))
    axes = figure.subplots()
    top = max(float(np.quantile(values, 0.9)), 1e-6)
    image = axes.imshow(values, cmap="Blues", vmin=0, vmax=top, aspect="auto")
    for row, cell in enumerate(cells):
        for at, name in enumerate(names):
            axes.text(
                at,
                row,
                f"{cell.measured[name]:.3f}",
                ha="center",
                va="center",
                fontsize=7,
                fontweight="bold" if cell.regret(name) == 0 else "normal",
                color="white" if values[row, at] > 0.55 * top else "black",
            )
    labels = [f"{cell.trace}  {human_bytes(cell.size_pages * PAGE_BYTES)}" for cell in cells]
    axes.set_yticks(range(len(cells)), labels)
    axes.set_xticks(range(len(names)), names, rotation=40, ha="left")
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    figure.colorbar(
        image, ax=axes, label="miss ratio above the best policy", pad=0.02, extend="max"
    )
    save(figure, path)
