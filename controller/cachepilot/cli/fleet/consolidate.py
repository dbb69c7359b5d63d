# SPDX-License-Identifier: Apache-2.0
"""`cachepilot consolidate`: least memory per tenant, how many more fit, which nodes to drain."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cachepilot.api.shapes.questions import Consolidation, Drain, LeastMemory, Move, Spread
from cachepilot.cli.asking import completing
from cachepilot.cli.asking.asking import asking
from cachepilot.cli.asking.client import Controller, parsed
from cachepilot.cli.exports.export import EXPORTS, ExportForm
from cachepilot.cli.fleet import rollout
from cachepilot.cli.terminal import formats, tables
from cachepilot.cli.terminal.options import JsonOption
from cachepilot.errors import InputError
from cachepilot.readable import clock, number
from cachepilot.sizes import PAGE_BYTES, human_bytes


def _saved(saved_bytes: int) -> str:
    """Return the memory that a tenant could give, or that it lacks."""
    return human_bytes(saved_bytes) if saved_bytes >= 0 else f"lacks {human_bytes(-saved_bytes)}"


def _slos(row: LeastMemory) -> Text:
    """Return what is predicted of a tenant's SLOs, or that one without any would be slower.

    The heading of the column begins the sentence, `SLOs predicted to be met`, except without SLOs.
    """
    if not row.has_slo:
        loses = row.known and not row.kept
        return Text("no SLO: slower", "red") if loses else Text("-", "dim")
    if not row.known:
        return Text("unknown", "yellow")
    if not row.kept:
        return Text("unattainable", "red")
    if row.least_bytes > row.limit_bytes:
        return Text("to need more", "yellow")
    return Text("to be met", "green")


def _more(row: LeastMemory) -> str:
    return f"{row.more_of_this_kind:,}" if row.known else "-"


def _table(found: Consolidation) -> Table:
    table = tables.new_table("least memory that meets each tenant's SLOs, predicted")
    tables.add_columns(table, ["node", "tenant", "policy"], "left")
    tables.add_columns(table, ["limit"])
    tables.add_columns(table, ["least under"], "left")
    tables.add_columns(table, ["least", "saved"])
    tables.add_columns(table, ["SLOs predicted"], "left")
    tables.add_columns(table, ["more like it"])
    for row in found.tenants:
        table.add_row(
            row.node,
            row.cgroup,
            row.policy,
            formats.limit(row.limit_bytes),
            row.least_policy,
            formats.limit(row.least_bytes),
            _saved(row.limit_bytes - row.least_bytes),
            _slos(row),
            _more(row),
        )
    return table


def _story(order: int, drain: Drain) -> Iterator[RenderableType]:
    """Yield what draining a node means: the moves with their reasons, the costs, and the gain."""
    saves = f"frees {human_bytes(drain.freed_bytes)}"
    costs = f"page caches are cold for {drain.cold_s:.3g} s in all, predicted"
    yield Text(f"{order}. {drain.node} can be drained: {saves}; {costs}", style="bold")
    yield from _moves(drain)


def _moves(drain: Drain) -> Iterator[RenderableType]:
    for move in drain.moves:
        yield Text(f"   {move.cgroup} goes to {move.to_node}: {_costs(move)}")
    for why in dict.fromkeys(move.why for move in drain.moves if move.why):
        yield Text(f"   {why}", style="dim")


def _spread_parts(found: Spread) -> Iterator[RenderableType]:
    if not found.drains:
        yield Text("no tenant has to move")
    for order, drain in enumerate(found.drains, 1):
        yield Text(f"{order}. {drain.why}", style="bold")
        yield from _moves(drain)
    for _, told in rollout.left(found):
        yield Text(told, "red")
    for note in found.notes:
        yield Text(f"note: {note}")


def _costs(move: Move) -> str:
    """Return a tenant's needs on its target, and the prediction for it there."""
    cold = human_bytes(move.cold_pages * PAGE_BYTES)
    ops = f", then {move.predicted_ops:,.0f} operations/s" if move.predicted_ops else ""
    needs = f"needs {human_bytes(move.limit_bytes)} under {move.policy}"
    if move.need_bytes is not None:
        gets = f"gets {human_bytes(move.limit_bytes)} under {move.policy}"
        needs = f"{gets}; needs {human_bytes(move.need_bytes)}"
    if move.peak_s is not None:
        needs += f" now and {human_bytes(move.peak_bytes)} at {clock(move.peak_s)}"
    if move.cpus is not None:
        needs += f", {number(move.cpus, 2)} CPUs"
    return f"{needs}, reads {cold} again in {move.cold_s:.3g} s{ops}"


def _parts(found: Consolidation) -> Iterator[RenderableType]:
    yield _table(found)
    if not found.drains:
        yield Text(
            "no node can be drained: there is no other to take its tenants over"
            if found.nodes == 1
            else "no node can be drained"
        )
    for order, drain in enumerate(found.drains, 1):
        yield from _story(order, drain)
    for note in found.notes:
        yield Text(f"note: {note}")


def _export(remote: Controller, form: ExportForm) -> None:
    """Print the plan in the form of the program that is to execute it."""
    found = parsed(Consolidation, remote.call("GET", "consolidation"))
    typer.echo(EXPORTS[form](found, remote.tenants()), nl=False)


@asking
def command(
    remote: Controller,
    apply: Annotated[
        bool, typer.Option("--apply", help="Move tenants now, node by node; asks first.")
    ] = False,
    node: Annotated[
        str | None,
        typer.Option(
            "--node",
            metavar="NODE",
            help="Only the tenants of this node.",
            autocompletion=completing.nodes,
        ),
    ] = None,
    spread: Annotated[
        bool,
        typer.Option(
            "--spread",
            help="Show which tenants have to leave nodes that run out of room.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    shown: Annotated[
        bool, typer.Option("--rollout", help="Show the last rollout, with its measurements.")
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop the rollout; undo the move under way.")
    ] = False,
    export: Annotated[
        ExportForm | None,
        typer.Option("--export", metavar="FORM", help="kubernetes, ansible or json; on stdout."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the least memory per tenant for its SLOs, how many more fit, and drainable nodes."""
    if apply + shown + stop + (export is not None) > 1:
        allowed = "allowed: one of them"
        raise InputError(f"consolidate: --apply, --rollout, --stop, --export ({allowed})")
    if (node is not None or yes) and not apply:
        raise InputError("consolidate: --node and --yes (allowed: with --apply)")
    if spread and (shown or stop or export is not None):
        raise InputError("consolidate: --spread (allowed: alone, or with --apply)")
    if apply:
        rollout.apply(remote, node, yes, as_json, spread)
    elif shown:
        rollout.show(remote, as_json)
    elif stop:
        rollout.stop(remote, as_json)
    elif export is not None:
        _export(remote, export)
    else:
        _show(remote, spread, as_json)


def _show(remote: Controller, spread: bool, as_json: bool) -> None:
    value = remote.call("GET", rollout.SPREAD if spread else rollout.CONSOLIDATION)
    if as_json:
        tables.print_json(value)
        return
    out = tables.console()
    found = _spread_parts(parsed(Spread, value)) if spread else _parts(parsed(Consolidation, value))
    for part in found:
        out.print(part)
