#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw docs/images/miss_ratio_curve.svg: curves of a recorded trace, and a working point."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from cachepilot import _models
from cachepilot.cli.traces.plots import COLOURS, save
from cachepilot.sizes import PAGE_BYTES, UNITS_BYTES

ROOT = Path(__file__).resolve().parent.parent
TRACE = ROOT / "experiments" / "recorded_traces" / "searches.cptrace.zst"
PICTURE = ROOT / "docs" / "images" / "miss_ratio_curve.svg"
HELD, OTHER = "lru", "lfu"
POINTS = 60
LIMIT_SHARE = 0.5
"""The tenant's limit in the picture, as a share of all pages that the trace accesses."""


def _note(axes: Axes, text: str, at: tuple[float, float], away: tuple[float, float]) -> None:
    arrow = {"arrowstyle": "->"}
    axes.annotate(text, at, xytext=away, textcoords="offset points", arrowprops=arrow)


def _draw(curves: list[_models.Curve], limit_pages: float) -> Figure:
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()
    scale = UNITS_BYTES["MiB"] / PAGE_BYTES
    at = []
    for curve, colour in zip(curves, COLOURS, strict=False):
        sizes = curve.sizes_pages / scale
        axes.plot(sizes, curve.miss_ratio, color=colour, linewidth=2, label=curve.policy)
        at.append(float(np.interp(limit_pages / scale, sizes, curve.miss_ratio)))
    limit = limit_pages / scale
    axes.axvline(limit, color="#555555", linewidth=1, linestyle=(0, (4, 3)))
    axes.plot([limit], at[:1], "o", color=COLOURS[0], markersize=9, markeredgecolor="black")
    text = f"working point: {limit:.0f} MiB under {HELD},\n{at[0]:.0%} of accesses miss"
    _note(axes, text, (limit, at[0]), (24, 20))
    axes.plot([limit], at[1:], "o", color="white", markersize=7, markeredgecolor=COLOURS[1])
    text = f"the same memory under {OTHER}: {at[1]:.0%}"
    _note(axes, text, (limit, at[1]), (-170, -40))
    axes.set(xlabel="memory (MiB)", ylabel="miss ratio", ylim=(0, None), xlim=(0, None))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(frameon=False)
    return figure


def main() -> None:
    """Compute the curves from every access of the trace, and draw them."""
    pages = _models.trace_footprint(str(TRACE))[1]
    sizes = _models.size_grid(pages, POINTS)
    curves = _models.mrc_exact(str(TRACE), sizes, [HELD, OTHER], seed=1)
    save(_draw(curves, LIMIT_SHARE * pages), PICTURE)


if __name__ == "__main__":
    main()
