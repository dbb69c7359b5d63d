# SPDX-License-Identifier: Apache-2.0
"""`cachepilot explain`: why a tenant has its policy and its memory."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cachepilot.api.shapes.detail import CurvesView, TenantDetail
from cachepilot.api.shapes.views import SloView, WorkloadView
from cachepilot.cli.asking.asking import asking
from cachepilot.cli.asking.client import (
    Controller,
    NodeOption,
    TenantArgument,
    parsed,
    workload_name,
)
from cachepilot.cli.fleet.curve_plot import STYLES, Line, curve_plot
from cachepilot.cli.terminal import formats, tables
from cachepilot.cli.terminal.options import JsonOption
from cachepilot.readable import moment
from cachepilot.sizes import human_bytes

PLOT_COLUMNS_MAX = 100
DEFAULT_POLICY = "default"


def _shown(detail: TenantDetail) -> list[str]:
    """Return the policies to draw, six at most.

    They are the present one, the kernel's default, and then the best ones.
    """
    best = [one.policy for one in detail.policies]
    wanted = dict.fromkeys([detail.tenant.policy, DEFAULT_POLICY, *best])
    return [policy for policy in wanted if policy in best][: len(STYLES)]


def _plot(detail: TenantDetail, curves: CurvesView, size_bytes: int, width: int) -> Text:
    ratios = dict(zip(curves.policies, curves.miss_ratio, strict=True))
    lines = [Line(name, ratios[name]) for name in _shown(detail)]
    hit_ratio = detail.tenant.hit_ratio
    here = None if hit_ratio is None else (size_bytes, 1 - hit_ratio)
    return curve_plot(curves.sizes_bytes, lines, here, min(width, PLOT_COLUMNS_MAX))


def _policies(detail: TenantDetail, size_bytes: int) -> Table:
    table = tables.new_table(f"policies at {human_bytes(size_bytes)} of memory")
    tables.add_columns(table, ["policy"], "left")
    tables.add_columns(table, ["miss ratio", "±"])
    tables.add_columns(table, [""], "left")
    for one in detail.policies:
        name = tables.best(one.policy, one.policy == detail.tenant.policy)
        table.add_row(name, f"{one.miss_ratio:.4f}", f"{one.error_bar:.4f}", one.note)
    return table


def _measured(detail: TenantDetail) -> Table:
    tenant = detail.tenant
    table = tables.new_table()
    tables.add_columns(table, [""], "left")
    tables.add_columns(table, ["predicted", "measured", "prediction off by"])
    miss_ratio = None if tenant.hit_ratio is None else 1 - tenant.hit_ratio
    predicted = formats.share(detail.predicted_miss_ratio, 2)
    table.add_row("miss ratio", predicted, formats.share(miss_ratio, 2), "")
    table.add_row(
        f"operations/s ({tenant.indicator})",
        formats.count(detail.predicted_ops),
        formats.count(tenant.throughput_ops),
        formats.UNKNOWN if detail.prediction_error is None else f"{detail.prediction_error:+.1%}",
    )
    return table


def _slo(slo: SloView) -> Text:
    target, measured, predicted, attainable = formats.slo_values(
        slo.kind, slo.target, slo.measured, slo.predicted, slo.attainable
    )
    line = Text(f"SLO {slo.kind} {target}: ")
    line.append(slo.verdict, tables.VERDICT_STYLES.get(slo.verdict, ""))
    line.append(f"; measured {measured}, met in {formats.share(slo.attainment)} of the last hour")
    if slo.state != "stale":
        line.append(f"; {formats.prediction(slo)}")
    if slo.state != "stale" and slo.predicted is not None:
        line.append(f": {predicted}, attainable {attainable}")
    return line.append(f"\n  {slo.why}") if slo.why else line


def _needed(detail: TenantDetail) -> str:
    tenant, needed = detail.tenant, detail.needed_for_slo_bytes
    states = {slo.state for slo in tenant.slos}
    if "stale" in states:
        return "memory needed: unknown, its node sends nothing"
    # One unattainable SLO is enough, whatever is known of the others.
    is_unattainable = needed is None and "unattainable" in states
    is_unknown = "unknown" in states or detail.predicted_miss_ratio is None
    if is_unknown and not is_unattainable:
        return "memory needed: unknown, not every SLO is predicted"
    if needed is None:
        last = "last " if any(map(formats.is_earlier, tenant.slos)) else ""
        return f"needed, {last}predicted: no memory of this node meets every SLO, under any policy"
    policy = detail.needed_policy or detail.best_policy or tenant.policy
    told = f"needed, predicted: {human_bytes(needed)} under {policy} meet every SLO"
    has = tenant.limit_bytes or tenant.current_bytes
    is_missed = any(slo.met is False for slo in tenant.slos)
    if is_missed and tenant.policy == policy and has >= needed:
        told += f"; it has {human_bytes(has)} and misses one: the prediction is off"
    return told


def _named(workload: WorkloadView) -> str:
    labels = ", ".join(f"{name}={value}" for name, value in sorted(workload.labels.items()))
    return f"pod {workload_name(workload)}" + (f", labels {labels}" if labels else "")


def _head(detail: TenantDetail) -> Iterator[RenderableType]:
    tenant = detail.tenant
    yield Text(f"{tenant.cgroup} on {tenant.node}", style="bold")
    if tenant.workload is not None:
        yield Text(_named(tenant.workload))
    yield Text(
        f"policy {tenant.policy}, limit {formats.limit(tenant.limit_bytes)}, "
        f"in use {human_bytes(tenant.current_bytes)}, "
        f"mode {tenant.mode}, weight {tenant.weight:g}, priority {tenant.priority}"
    )
    yield Text(formats.floor(tenant.floor_bytes, tenant.least_limit_bytes))
    yield Text(f"why: {detail.why}", style="bold red" if tenant.stale else "")
    if tenant.readahead_policy is not None:
        yield Text(f"readahead policy {tenant.readahead_policy}")
    if tenant.pinned_policy or tenant.pinned_limit_bytes:
        policy = tenant.pinned_policy or "any"
        limit = human_bytes(tenant.pinned_limit_bytes) if tenant.pinned_limit_bytes else "any"
        end = "it is unpinned" if tenant.pinned_until_s is None else moment(tenant.pinned_until_s)
        yield Text(f"pinned: policy {policy}, limit {limit}, until {end}")
    if tenant.recommendation is not None:
        yield Text(f"recommended: {formats.recommendation(tenant.recommendation)}", style="cyan")
    if not tenant.trusted:
        yield Text(f"low confidence: {tenant.distrust}", style="yellow")
    if tenant.interference:
        yield Text(f"interference: {tenant.interference}", style="yellow")
    for one in tenant.conditions:
        # Interference already describes what other managers do to the limit.
        if one.message not in tenant.interference:
            yield Text(f"{one.kind.replace('_', ' ')}: {one.message}", style="yellow")
    if tenant.trial is not None:
        trial = tenant.trial
        yield Text(
            f"on trial: {trial.from_policy} at {formats.limit(trial.from_limit_bytes)} -> "
            f"{trial.to_policy} at {formats.limit(trial.to_limit_bytes)}; before it "
            f"{formats.count(trial.baseline_ops)} ops/s, "
            f"predicted {formats.count(trial.predicted_ops)}",
            style="cyan",
        )


def explained(detail: TenantDetail, width: int) -> Iterator[RenderableType]:
    """Yield the parts of the page, from the answer to its basis."""
    yield from _head(detail)
    for slo in detail.tenant.slos:
        yield _slo(slo)
    if detail.tenant.slos and detail.curves is not None:
        yield Text(_needed(detail))
    yield _measured(detail)
    tenant, curves = detail.tenant, detail.curves
    if curves is None:
        yield Text("no curves yet: they need accesses to learn from")
        return
    size_bytes = tenant.limit_bytes or tenant.current_bytes
    yield Text(f"miss ratio by memory; ● measured now; {curves.sampled:,} accesses sampled")
    yield _plot(detail, curves, size_bytes, width)
    yield _policies(detail, size_bytes)
    if detail.demand is not None:
        demand = detail.demand
        off = formats.UNKNOWN if demand.error_pct is None else f"{demand.error_pct:.1f}%"
        yield Text(
            f"model: {demand.service_us:.4g} us of service and {demand.accesses_per_op:.3g} "
            f"accesses per operation, {demand.concurrency:.3g} at a time; given the measured miss "
            f"ratio it is off by {off} on average, without the error of the curve"
        )


@asking
def command(
    remote: Controller,
    tenant: TenantArgument,
    node: NodeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain one tenant: its curves, the prediction, what was measured, what an SLO would take."""
    cgroup = remote.cgroup(tenant, node)
    value = remote.call("GET", "tenants/detail", cgroup=cgroup, node=node)
    if as_json:
        tables.print_json(value)
        return
    out = tables.console()
    for part in explained(parsed(TenantDetail, value), out.width):
        out.print(part)
