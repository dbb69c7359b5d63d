# SPDX-License-Identifier: Apache-2.0
"""The status of nodes and tenants as lines and a table."""

from collections.abc import Sequence

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from cachepilot.api.shapes.views import NodeView, SloView, TenantView
from cachepilot.cli.asking.client import workload_name
from cachepilot.cli.terminal import formats, tables
from cachepilot.cli.terminal.names import shortened
from cachepilot.sizes import human_bytes

COLUMNS = (
    *("node", "tenant", "policy", "limit", "floor", "least limit", "in use", "hits", "ops/s"),
    *("p99 us", "SLOs met", "last decision"),
)
NUMBERS = {"limit", "floor", "least limit", "in use", "hits", "ops/s", "p99 us"}
DROPPED_FIRST = ("least limit", "p99 us", "floor", "in use", "node", "last decision")
NAMES = ("node", "tenant")
TEXT_COLUMNS = 16
PADDING_COLUMNS = 3
SLO_NAMES = {"throughput_ops": "ops/s", "latency_p99_us": "p99 us", "hit_ratio": "hit"}


def node_line(node: NodeView) -> Text:
    """Return one node's line: identity, allocated memory, and problems."""
    line = Text(node.name, style="bold")
    line.append(f"  {node.kind}, {node.kernel}", style="not bold")
    if not node.connected:
        line.append("  no agent", style="bold red")
    budget, given = human_bytes(node.budget_bytes), human_bytes(node.limits_bytes)
    line.append(f"  {given} of {budget} allocated", style="not bold")
    if node.sure_free_bytes:
        sure, minutes = human_bytes(node.sure_free_bytes), node.free_for_s / 60
        line.append(f"  {sure} free for {minutes:.0f} min", style="not bold")
    if node.device_capacity_iops > 0 and node.device_iops is not None:
        busy = formats.share(node.device_iops / node.device_capacity_iops, 0)
        reads = formats.count(node.device_capacity_iops)
        line.append(f"  device {busy} of {reads} reads/s", style="not bold")
    line.append(f"  plan {node.epoch}", style="not bold")
    if node.dropped_events_total:
        line.append(f"  {node.dropped_events_total:,} events lost", style="not bold yellow")
    for one in node.conditions:
        line.append(f"  {one.message}", style="not bold yellow")
    if node.problem:
        line.append(f"  {node.problem}", style="bold red" if node.stale else "bold yellow")
    return line


def shown_prediction(slo: SloView) -> str:
    """Return what is predicted of an SLO, empty unless that adds to its measurement."""
    is_shown = slo.state not in ("met", "unknown", slo.verdict)
    return formats.prediction(slo) if is_shown else ""


def slo_text(slo: SloView) -> Text:
    """Return an SLO in short: the share of windows that met it, kind and bound, and problems."""
    bound = "≤" if slo.kind == "latency_p99_us" else "≥"
    target = formats.share(slo.target) if slo.kind == "hit_ratio" else formats.count(slo.target)
    text = f"{formats.share(slo.attainment)} {SLO_NAMES.get(slo.kind, slo.kind)} {bound} {target}"
    if slo.verdict != "met":
        text += f", {slo.verdict}"
    if predicted := shown_prediction(slo):
        text += f", {predicted}"
    return Text(text, style=tables.VERDICT_STYLES.get(slo.verdict, ""))


def _policy(tenant: TenantView) -> str:
    held = "pinned" if tenant.pinned_policy else "" if tenant.mode == "auto" else tenant.mode
    return f"{tenant.policy} ({held})" if held else tenant.policy


def _limit(tenant: TenantView) -> str:
    falling = tenant.target_limit_bytes != tenant.limit_bytes
    to = f" → {formats.limit(tenant.target_limit_bytes)}" if falling else ""
    pinned = " (pinned)" if tenant.pinned_limit_bytes else ""
    return f"{formats.limit(tenant.limit_bytes)}{to}{pinned}"


def _last(tenant: TenantView, now_s: float) -> Text:
    """Return what matters most: stale, interference, low confidence, a trial, last decision."""
    if tenant.stale:
        return Text("stale", style="bold red")
    if tenant.interference:
        return Text(tenant.interference, style="yellow")
    if not tenant.trusted:
        return Text(f"low confidence: {tenant.distrust}", style="yellow")
    if tenant.trial is not None:
        left = formats.duration(tenant.trial.ends_s - now_s)
        return Text(f"{tenant.last_decision}, {left} left", style="cyan")
    if tenant.last_decision_s is None:
        return Text(tenant.last_decision)
    return Text(f"{formats.duration(now_s - tenant.last_decision_s)} ago: {tenant.last_decision}")


def _row(tenant: TenantView, now_s: float) -> dict[str, Text]:
    last = _last(tenant, now_s)
    return {
        "node": Text(tenant.node),
        "tenant": Text(workload_name(tenant.workload) or tenant.cgroup),
        "policy": Text(_policy(tenant)),
        "limit": Text(_limit(tenant)),
        "floor": Text(human_bytes(tenant.floor_bytes)),
        "least limit": Text(formats.limit_or_unknown(tenant.least_limit_bytes)),
        "in use": Text(human_bytes(tenant.current_bytes)),
        "hits": Text(formats.share(tenant.hit_ratio)),
        "ops/s": Text(formats.count(tenant.throughput_ops)),
        "p99 us": Text(formats.count(tenant.latency_p99_us)),
        "SLOs met": Text("\n").join(slo_text(slo) for slo in tenant.slos),
        "last decision": last,
    }


def _needed(rows: Sequence[dict[str, Text]], name: str) -> int:
    """Return the width of a column if texts are cut to TEXT_COLUMNS and numbers are not."""
    cells = [line.cell_len for row in rows for line in row[name].split("\n")]
    widest = max([len(name), *cells])
    return PADDING_COLUMNS + (widest if name in NUMBERS else min(widest, TEXT_COLUMNS))


def _fitting(rows: Sequence[dict[str, Text]], several_nodes: bool, width: int) -> list[str]:
    """Return the columns that fit into the width."""
    columns = [name for name in COLUMNS if several_nodes or name != "node"]
    for dropped in DROPPED_FIRST:
        if sum(_needed(rows, name) for name in columns) <= width:
            break
        columns = [name for name in columns if name != dropped]
    return columns


def _shorten_names(rows: Sequence[dict[str, Text]], columns: Sequence[str], width: int) -> None:
    """Cut names of nodes and tenants to the remaining width so that they stay distinct."""
    for name in NAMES:
        left = width - sum(_needed(rows, one) for one in columns if one != name)
        room = max(TEXT_COLUMNS, left - PADDING_COLUMNS)
        short = shortened([row[name].plain for row in rows], room)
        for row in rows:
            row[name] = Text(short[row[name].plain])


def tenant_table(nodes: Sequence[NodeView], tenants: Sequence[TenantView], width: int) -> Table:
    """Return a table with a row per tenant; long texts are cut, names stay distinct."""
    # Ages use the clock of the tenant's node, which may run in virtual time.
    now_s = {node.name: node.last_seen_s for node in nodes}
    rows = [_row(one, now_s.get(one.node, one.last_decision_s or 0.0)) for one in tenants]
    columns = _fitting(rows, len(nodes) > 1, width)
    _shorten_names(rows, columns, width)
    table = tables.new_table()
    for name in columns:
        # rich takes missing width from columns that may wrap; their cells are cut.
        justify: JustifyMethod = "right" if name in NUMBERS else "left"
        table.add_column(name, justify=justify, no_wrap=name in (*NUMBERS, *NAMES))
    for row in rows:
        for text in row.values():
            text.no_wrap, text.overflow = True, "ellipsis"
        table.add_row(*(row[name] for name in columns))
    return table


def status(nodes: Sequence[NodeView], tenants: Sequence[TenantView], width: int) -> RenderableType:
    """Return a line per node above a row per tenant."""
    if not nodes:
        return Text("no node has connected yet: start an agent by `cachepilot agent run`")
    advice = (
        Text(f"{one.cgroup}: recommended {formats.recommendation(one.recommendation)}", "cyan")
        for one in tenants
        if one.recommendation is not None
    )
    table = tenant_table(nodes, tenants, width)
    return Group(*(node_line(node) for node in nodes), table, *advice)
