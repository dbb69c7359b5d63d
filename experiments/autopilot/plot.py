# SPDX-License-Identifier: Apache-2.0
"""Plots memory, policy and throughput over time, as SVG and PNG."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from experiments.autopilot.timeline import AUTOPILOT, DEFAULT, Point, Timeline
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from cachepilot.cli.traces.plots import COLOURS, save

MIB = 1 << 20
SHADES = ("#DDDDDD", "#9ECAE1", "#FDD0A2", "#C7E9C0", "#DADAEB", "#FDAE6B", "#BCBDDC")
NAME_FROM_SHARE = 0.06
"""Least share of the time axis that has room for the name of a policy."""


def policy_spans(points: Sequence[Point]) -> list[tuple[float, float, str]]:
    """Return the stretches with one policy: begin, end (the begin of the next), name."""
    runs = [(name, next(run).time_s) for name, run in groupby(points, lambda p: p.policy)]
    ends = [*(begin for _, begin in runs[1:]), points[-1].time_s if points else 0.0]
    return [(begin, end, name) for (name, begin), end in zip(runs, ends, strict=True)]


def _draw_memory(axes: Axes, timeline: Timeline) -> None:
    for colour, tenant in zip(COLOURS, timeline.tenants, strict=False):
        points = timeline.points.get((AUTOPILOT, tenant), [])
        sizes = [point.limit_bytes / MIB for point in points]
        times = [point.time_s for point in points]
        axes.step(times, sizes, where="post", label=tenant, color=colour)
    equal = [p.limit_bytes / MIB for s in timeline.tenants for p in timeline.points[DEFAULT, s][:1]]
    if equal:
        axes.axhline(equal[0], color="grey", linestyle="--", linewidth=1, label="equal split")
    axes.set(ylabel="memory (MiB)", ylim=(0, None))
    axes.legend(ncols=5, frameon=False, loc="lower left", bbox_to_anchor=(0, 1))


def _draw_policies(axes: Axes, timeline: Timeline) -> None:
    shades: dict[str, str] = {}
    for row, tenant in enumerate(timeline.tenants):
        for begin, end, name in policy_spans(timeline.points.get((AUTOPILOT, tenant), [])):
            shade = shades.setdefault(name, SHADES[len(shades) % len(SHADES)])
            axes.broken_barh([(begin, end - begin)], (row - 0.4, 0.8), color=shade, ec="white")
            if end - begin >= NAME_FROM_SHARE * timeline.last_s:
                middle = (begin + end) / 2
                axes.text(middle, row, name, ha="center", va="center", fontsize=7, clip_on=True)
    axes.set_yticks(range(len(timeline.tenants)), timeline.tenants)
    axes.set(ylabel="policy", ylim=(len(timeline.tenants) - 0.5, -0.5))
    axes.grid(visible=False)


def _draw_throughput(
    axes: Axes, timeline: Timeline, tenant: str, colour: str, slo: float | None
) -> None:
    for side, style in ((DEFAULT, "--"), (AUTOPILOT, "-")):
        known = [p for p in timeline.points.get((side, tenant), []) if p.throughput_ops is not None]
        axes.plot(
            [p.time_s for p in known],
            [p.throughput_ops or 0.0 for p in known],
            color="grey" if side == DEFAULT else colour,
            linestyle=style,
            linewidth=1.2,
            label="kernel default" if side == DEFAULT else side,
        )
    if slo is not None:
        axes.axhline(slo, color="black", linestyle=":", linewidth=1, label="SLO")
    axes.set(ylabel=f"{tenant}\n(ops/s)", ylim=(0, None))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    axes.legend(ncols=3, frameon=False, loc="lower right", bbox_to_anchor=(1, 0.95), fontsize=7)


def plot(
    timeline: Timeline, slos: Mapping[str, float], changes_s: Sequence[float], paths: Sequence[Path]
) -> None:
    """Draw `timeline` to each of `paths`. The suffix determines the format.

    `changes_s` are times at which a workload changes, each marked by a line.
    """
    tenants = timeline.tenants
    heights = [1.6, 1.3, *[1.0] * len(tenants)]
    figure = Figure(figsize=(10, 1.9 * sum(heights) ** 0.9 + 1), layout="constrained")
    panels = figure.subplots(
        len(heights), sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0]
    _draw_memory(panels[0], timeline)
    _draw_policies(panels[1], timeline)
    for axes, colour, tenant in zip(panels[2:], COLOURS, tenants, strict=False):
        _draw_throughput(axes, timeline, tenant, colour, slos.get(tenant))
    for axes in panels:
        for change in changes_s:
            axes.axvline(change, color="black", linewidth=0.8, alpha=0.5)
    panels[-1].set(xlabel="time (s); the line marks a change of workload")
    panels[-1].set_xlim(0, max(timeline.last_s, 1.0))
    for path in paths:
        save(figure, path)
