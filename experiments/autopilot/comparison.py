# SPDX-License-Identifier: Apache-2.0
"""Compares the kernel's default at equal static limits with the autopilot."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from experiments.autopilot.timeline import AUTOPILOT, DEFAULT, Summary, Timeline, Window
from rich.table import Table

from cachepilot.cli.terminal.tables import add_columns, new_table
from cachepilot.sizes import human_bytes

UNKNOWN = "-"


@dataclass(frozen=True)
class Row:
    """A tenant in a window, on both sides."""

    window: str
    tenant: str
    slo_ops: float | None
    default: Summary
    autopilot: Summary

    @property
    def gain_pct(self) -> float | None:
        """How much the autopilot's throughput exceeds the default's, in percent."""
        before, after = self.default.throughput_ops, self.autopilot.throughput_ops
        return 100 * (after / before - 1) if before and after is not None else None


def rows(timeline: Timeline, windows: Sequence[Window], slos: Mapping[str, float]) -> list[Row]:
    """Return a row per window and tenant that was seen on both sides."""
    found = []
    for window in windows:
        for tenant in timeline.tenants:
            slo = slos.get(tenant)
            before = timeline.summary(DEFAULT, tenant, window, slo)
            after = timeline.summary(AUTOPILOT, tenant, window, slo)
            if before and after:
                found.append(Row(window.name, tenant, slo, before, after))
    return found


def total_ops(found: Sequence[Row], window: str) -> tuple[float, float]:
    """Return the throughput of all tenants in a window: default, autopilot."""
    inside = [row for row in found if row.window == window]
    before = sum(row.default.throughput_ops or 0 for row in inside)
    return before, sum(row.autopilot.throughput_ops or 0 for row in inside)


def as_json(found: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the numbers of the table."""
    return [asdict(row) | {"gain_pct": row.gain_pct} for row in found]


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1%}"


def _gain(before: float | None, after: float | None) -> str:
    return f"{100 * (after / before - 1):+.0f}%" if before and after is not None else UNKNOWN


def _slo(row: Row) -> str:
    if row.slo_ops is None:
        return ""
    met = f"{_share(row.default.slo_met)} -> {_share(row.autopilot.slo_met)}"
    return f">= {row.slo_ops:,.0f}: {met}"


def _cells(side: Summary) -> list[str]:
    size = human_bytes(round(side.limit_bytes))
    return [side.policy, size, _share(side.hit_ratio), _number(side.throughput_ops)]


def table(found: Sequence[Row]) -> Table:
    """Return the table of one or more windows, with a line for all tenants of each window."""
    result = new_table("kernel default with equal static limits -> autopilot (both measured)")
    add_columns(result, ["window", "tenant"], justify="left")
    for name in ("", "-> "):
        result.add_column(f"{name}policy", no_wrap=True)
        add_columns(result, [f"{name}memory", f"{name}hit ratio", f"{name}ops/s"])
    add_columns(result, ["change", "SLO and share met"])
    for window in dict.fromkeys(row.window for row in found):
        shown = window
        for row in [row for row in found if row.window == window]:
            change = _gain(row.default.throughput_ops, row.autopilot.throughput_ops)
            cells = [*_cells(row.default), *_cells(row.autopilot), change, _slo(row)]
            result.add_row(shown, row.tenant, *cells)
            shown = ""
        before, after = total_ops(found, window)
        sums = ["", "", "", _number(before), "", "", "", _number(after), _gain(before, after)]
        result.add_row("", "all", *sums, "", style="bold", end_section=True)
    return result
