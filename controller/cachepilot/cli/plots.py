# SPDX-License-Identifier: Apache-2.0
"""Plots as files: readable with seventeen lines and with any kind of colour vision."""

import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from cachepilot import _models
from cachepilot.choice import Cell
from cachepilot.sizes import PAGE_BYTES, UNITS_BYTES, human_bytes

# Okabe and Ito, "Color Universal Design" (2008), without the yellow that white paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
LINES = ("solid", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))

mpl.use("Agg")
mpl.rcParams.update({"svg.hashsalt": "cachepilot", "font.size": 9, "axes.grid": True})
mpl.rcParams.update({"grid.alpha": 0.3, "axes.spines.right": False, "axes.axisbelow": True})
logging.getLogger("matplotlib").setLevel(logging.ERROR)


def save(figure: Figure, path: Path) -> None:
    """Writes the figure so that `path` is either the whole new file or untouched."""
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


def plot_curves(curves: Sequence[_models.Curve], title: str, path: Path) -> None:
    """One line per curve with a band for its error bar, best on average first in the legend."""
    figure = Figure(figsize=(9.5, 5.5))
    axes = figure.subplots()
    largest = max(float(curve.sizes_pages[-1]) for curve in curves)
    for i, curve in enumerate(sorted(curves, key=lambda curve: float(curve.miss_ratio.mean()))):
        sizes = curve.sizes_pages.astype(np.float64)
        colour, style = COLOURS[i % len(COLOURS)], LINES[i // len(COLOURS) % len(LINES)]
        axes.plot(
            sizes, curve.miss_ratio, color=colour, linestyle=style, lw=1.5, label=curve.policy
        )
        bar = np.nan_to_num(curve.error_bar())
        if bar.any():
            low, high = curve.miss_ratio - bar, curve.miss_ratio + bar
            axes.fill_between(
                sizes, low.clip(0, 1), high.clip(0, 1), color=colour, alpha=0.12, linewidth=0
            )
    axes.set(xlabel="cache size (pages)", ylabel="miss ratio", xlim=(0, largest), ylim=(0, 1.02))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    _bytes_axis(axes, largest)
    methods = ", ".join(dict.fromkeys(curve.method for curve in curves))
    axes.set_title(f"{title} ({methods})", loc="left", fontweight="bold")
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="center left",
        bbox_to_anchor=(0.91, 0.5),
        frameon=False,
        handlelength=3.5,
        title="best on average first",
    )
    save(figure, path)


def plot_comparison(cells: Sequence[Cell], path: Path) -> None:
    """A map of regret: a row per trace and size, a column per policy, best on average first.

    Every field says the miss ratio; its shade is the miss ratio above the best of its row, and
    full from the 90th percentile on, so that one hopeless policy does not bleach the others.
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
