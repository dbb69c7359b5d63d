#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw docs/images/change_of_policy.svg and change_of_memory.svg: how a change begins and ends.

The pictures are schematic: they show the order of events, and axes have no numbers.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cachepilot.cli.traces.plots import COLOURS, save

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
SAVES, LOSES, OTHER = COLOURS[2], COLOURS[1], COLOURS[0]
GREY = "#555555"
DASHED, DOTTED = (0, (4, 3)), (0, (1, 2))


def _figure() -> tuple[Figure, Axes, Axes]:
    """Return a figure with one panel for the time before a change and one for the time after."""
    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    before, after = figure.subplots(1, 2)
    for axes in (before, after):
        axes.set(xlabel="time", xticks=[], yticks=[])
    return figure, before, after


def _note(axes: Axes, text: str, at: tuple[float, float], away: tuple[float, float]) -> None:
    arrow = {"arrowstyle": "->"}
    axes.annotate(text, at, xytext=away, textcoords="offset points", arrowprops=arrow, ha="center")


def _evidence(axes: Axes, unit: str, hurdle: str) -> None:
    """Draw evidence that rises, falls and rises, until it exceeds the hurdle."""
    time, sums = [0, 1, 2, 3, 4, 5, 6, 7], [0.0, 0.2, 0.45, 0.25, 0.5, 0.75, 1.0, 1.2]
    axes.plot(time, sums, color=OTHER, linewidth=2)
    axes.axhline(1, color=GREY, linewidth=1, linestyle=DASHED)
    axes.text(0, 1.04, hurdle, color=GREY)
    _note(axes, "the change begins", (6, 1), (-2, -95))
    axes.set(title="1. Evidence", ylabel=unit, xlim=(0, 7), ylim=(0, 1.4))


def policy() -> Figure:
    """Draw a change of policy, with both ends that its trial may have."""
    figure, before, after = _figure()
    _evidence(before, "pages that another policy\nwould have saved", "2.25 x stake")
    time = np.linspace(0, 7, 71)
    error = 0.42 * np.sqrt(time)
    after.plot(time, 0.24 * time, color=SAVES, linewidth=2)
    after.plot(time[time <= 4], -0.2 * time[time <= 4], color=LOSES, linewidth=2)
    after.plot(time, error, color=GREY, linewidth=1, linestyle=DASHED)
    after.text(6.9, 0.86, "error", color=GREY, ha="right")
    after.axhline(0, color=GREY, linewidth=0.8)
    after.axhline(-0.8, color=GREY, linewidth=1, linestyle=DASHED)
    after.text(6.9, -0.95, "the most that it may lose", color=GREY, ha="right")
    crossing = (0.42 / 0.24) ** 2
    _note(after, "confirmed: it saves\nmore than its error", (crossing, 0.24 * crossing), (-40, 45))
    _note(after, "undone: the earlier\npolicy returns", (4, -0.8), (55, 18))
    after.set(title="2. Trial", ylabel="pages saved, measured", xlim=(0, 7), ylim=(-1.1, 1.9))
    return figure


def memory() -> Figure:
    """Draw a change of memory between two tenants, with both ends that it may have."""
    figure, before, after = _figure()
    unit = "how much more the present\nlimits cost than the plan's"
    _evidence(before, unit, "cost of the change")
    after.step([0, 1, 1.5, 2, 6], [1.0, 1.2, 1.4, 1.6, 1.6], where="post", color=SAVES, linewidth=2)
    after.step([0, 1, 1.5, 2, 6], [0.9, 0.7, 0.5, 0.3, 0.3], where="post", color=OTHER, linewidth=2)
    for kept, back, colour in ((1.6, 1.0, SAVES), (0.3, 0.9, OTHER)):
        after.plot([6, 8], [kept, kept], color=colour, linewidth=2)
        after.plot([6, 6, 8], [kept, back, back], color=colour, linewidth=2, linestyle=DOTTED)
    for x, text in ((1.5, "limits\nmove"), (3.0, "page\ncaches fill"), (5.0, "gain is\nmeasured")):
        after.text(x, 1.74, text, color=GREY, ha="center")
    for x in (2.1, 3.9, 6):
        after.axvline(x, color=GREY, linewidth=0.8, linestyle=DASHED)
    after.text(7, 1.66, "confirmed", ha="center")
    after.text(7, 1.06, "undone", ha="center")
    after.text(3.0, 1.48, "receives", color=SAVES, ha="center")
    after.text(3.0, 0.36, "gives", color=OTHER, ha="center")
    after.set(title="2. Rollout", ylabel="limits of two tenants", xlim=(0, 8), ylim=(0, 2.05))
    return figure


def main() -> None:
    """Draw both pictures."""
    save(policy(), IMAGES / "change_of_policy.svg")
    save(memory(), IMAGES / "change_of_memory.svg")


if __name__ == "__main__":
    main()
