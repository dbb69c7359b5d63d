# SPDX-License-Identifier: Apache-2.0
"""Shows the state of all tenants during a run: as a live table, or as a line now and then."""

from collections.abc import Mapping, Sequence

from experiments.autopilot.timeline import AUTOPILOT, DEFAULT, split
from rich.table import Table

from cachepilot.api.shapes.views import TenantView
from cachepilot.cli.terminal.tables import add_columns, new_table
from cachepilot.sizes import human_bytes

DECISION_CHARACTERS = 60


def _hits(tenant: TenantView | None) -> str:
    return "-" if tenant is None or tenant.hit_ratio is None else f"{tenant.hit_ratio:.1%}"


def _ops(tenant: TenantView | None) -> str:
    return (
        "-" if tenant is None or tenant.throughput_ops is None else f"{tenant.throughput_ops:,.0f}"
    )


def _slo(tenant: TenantView) -> str:
    marks = {True: "met", False: "missed", None: "?"}
    return ", ".join(f"{slo.kind} {slo.target:,.0f} {marks[slo.met]}" for slo in tenant.slos)


def _decision(tenant: TenantView) -> str:
    text = tenant.last_decision
    short = text if len(text) <= DECISION_CHARACTERS else text[: DECISION_CHARACTERS - 3] + "..."
    return ("on trial: " if tenant.trial else "") + short


def _steered(views: Mapping[tuple[str, str], TenantView]) -> list[tuple[str, TenantView]]:
    """Return the autopilot's tenants, or the default's as long as there are none."""
    side = AUTOPILOT if any(side == AUTOPILOT for side, _ in views) else DEFAULT
    return [(name, tenant) for (of, name), tenant in views.items() if of == side]


def status_table(tenants: Sequence[TenantView], seconds: float, left: float | None) -> Table:
    """Return a row per tenant of the autopilot, with the default's hit ratio and throughput."""
    views = {split(tenant.cgroup): tenant for tenant in tenants}
    end = "Ctrl-C ends the run" if left is None else f"{left:.0f} s left"
    table = new_table(f"autopilot, {seconds:.0f} s, {end}; the kernel's default in brackets")
    add_columns(table, ["tenant", "policy"], justify="left")
    add_columns(table, ["memory", "hit ratio", "ops/s"])
    add_columns(table, ["SLO", "last decision"], justify="left")
    for name, tenant in _steered(views):
        before = views.get((DEFAULT, name))
        table.add_row(
            name,
            tenant.policy,
            human_bytes(tenant.limit_bytes),
            f"{_hits(tenant)} ({_hits(before)})",
            f"{_ops(tenant)} ({_ops(before)})",
            _slo(tenant),
            _decision(tenant),
        )
    return table


def status_line(tenants: Sequence[TenantView], seconds: float, slos: Mapping[str, float]) -> str:
    """Return the same information in one line, for a log."""
    views = {split(tenant.cgroup): tenant for tenant in tenants}
    parts = []
    for name, tenant in _steered(views):
        mark = "" if name not in slos else f" (SLO {slos[name]:,.0f})"
        memory = human_bytes(tenant.limit_bytes)
        before = _ops(views.get((DEFAULT, name)))
        parts.append(f"{name} {tenant.policy} {memory} {_ops(tenant)}/{before} ops/s{mark}")
    return f"{seconds:5.0f} s  " + "; ".join(parts)
