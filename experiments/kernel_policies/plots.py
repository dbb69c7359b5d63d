# SPDX-License-Identifier: Apache-2.0
"""Draws the plots from the rows alone, so that the same rows give the same bytes."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from cachepilot.cli.traces.plots import COLOURS, save
from cachepilot.results import Result

# Title and axis of each plot, by metric. A plot has one bar per policy.
PLOTS = {
    "kernel.zipf_reads_per_second": ("Zipf point reads, a tenth of the file fits", "reads/s"),
    "kernel.zipf_block_reads": (
        "Zipf point reads, a tenth of the file fits",
        "block reads per read",
    ),
    "kernel.uniform_reads_per_second": ("Uniform point reads", "reads/s"),
    "kernel.filesearch_seconds": ("Ten searches of a tree 1.4 times the cgroup", "seconds"),
    "kernel.getscan_gets": ("GETs beside a SCAN thread", "GETs/s"),
    "kernel.compaction_get_p99_us": ("RocksDB GETs while it compacts, P99", "microseconds"),
}


def _bars(family: str, results: Sequence[Result], path: Path) -> None:
    rows = [row for row in results if row.metric.rpartition(".")[0] == family]
    if not rows:
        return
    title, label = PLOTS[family]
    rows.sort(key=lambda row: row.value)
    figure = Figure(figsize=(6.0, 0.9 + 0.3 * len(rows)))
    axes = figure.subplots()
    names = [row.metric.rpartition(".")[2].replace("_", " ") for row in rows]
    own = ("default", "mglru native")
    colours = [COLOURS[1] if name in own else COLOURS[0] for name in names]
    whiskers = [
        [row.value - row.spread[0] for row in rows],
        [row.spread[1] - row.value for row in rows],
    ]
    axes.barh(names, [row.value for row in rows], xerr=whiskers, color=colours, capsize=2)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(label)
    axes.set_title(title, loc="left", fontweight="bold")
    save(figure, path)


def write(results: Sequence[Result], folder: Path) -> None:
    """Write every plot that has rows."""
    for family in PLOTS:
        _bars(family, results, folder / f"{family.removeprefix('kernel.')}.svg")
