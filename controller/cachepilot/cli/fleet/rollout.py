# SPDX-License-Identifier: Apache-2.0
"""`cachepilot consolidate --apply`, `--rollout` and `--stop`: execution of a consolidation."""

import sys
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cachepilot.api.shapes.questions import Consolidation, Drain, Spread
from cachepilot.api.shapes.rollout import CheckView, MovedView, RolloutView
from cachepilot.cli.asking.accepting import require_agreed, require_somebody
from cachepilot.cli.asking.client import Controller, parsed
from cachepilot.cli.fleet import rehearsals
from cachepilot.cli.terminal import formats, tables
from cachepilot.domain.moving import KEEP, MoveState
from cachepilot.errors import InputError
from cachepilot.sizes import PAGE_BYTES, human_bytes

CONSOLIDATION, SPREAD = "consolidation", "consolidation/spread"


def chosen(found: Consolidation | Spread, node: str | None) -> list[Drain]:
    """Return the drains to execute; none if no tenant has to move.

    Raises InputError for a `node` that no tenant can leave, and if nodes stay short.
    """
    drains = [one for one in found.drains if node in (None, one.node)]
    is_fine = isinstance(found, Consolidation) or not found.left
    if drains or (node is None and is_fine):
        return [one for one in drains if one.moves]
    known = ", ".join(one.node for one in found.drains) or "none"
    if isinstance(found, Consolidation):
        raise InputError(f"consolidate: --node {node}: it cannot be drained (allowed: {known})")
    short = [told for name, told in left(found) if node in (None, name)]
    why = "; ".join(short) or f"--node {node}: no shortage is known of it"
    raise InputError(f"consolidate: {why} (allowed: {known})")


def left(found: Spread) -> Iterator[tuple[str, str]]:
    """Yield each node that stays short, and what of, in words."""
    for node, why in found.left.items():
        yield node, f"{why}; no node has room for the tenants that could leave {node}"


def costs(drains: list[Drain]) -> Iterator[str]:
    """Yield in words which tenants would move, the predicted costs, and the memory saved."""
    for drain in drains:
        cold = sum(one.cold_pages for one in drain.moves) * PAGE_BYTES
        frees = f", which frees {human_bytes(drain.freed_bytes)}" if drain.freed_bytes else ""
        yield (
            f"{drain.node}: {len(drain.moves)} tenants move{frees}; {human_bytes(cold)} are read "
            f"again, in {drain.cold_s:.3g} s (predicted)"
        )
        for move in drain.moves:
            yield f"  {move.cgroup} goes to {move.to_node}"


def apply(
    remote: Controller, node: str | None, yes: bool, as_json: bool, spreads: bool = False
) -> None:
    """Begin a rollout after a person has agreed to its costs.

    If no tenant has to move, that is a success: a timer may repeat the command although all nodes
    have room or are empty already. It is an error if a node is short and no tenant can leave it.
    """
    value = remote.call("GET", SPREAD if spreads else CONSOLIDATION)
    found = parsed(Spread, value) if spreads else parsed(Consolidation, value)
    for note in found.notes if isinstance(found, Spread) else ():
        print(f"note: {note}", file=sys.stderr)
    drains = chosen(found, node)
    if not drains:
        if as_json:
            tables.print_json(None)
        else:
            print("no tenant has to move")
        return
    if isinstance(found, Spread):
        for _, told in left(found):
            print(told, file=sys.stderr)
    for line in costs(drains):
        print(line, file=sys.stderr)
    if not yes:
        require_somebody("consolidate: without a terminal the command cannot ask")
        require_agreed("Move these tenants now?", "nothing was moved")
    wanted: dict[str, Any] = {"drains": [one.model_dump(mode="json") for one in drains]}
    if spreads:
        wanted["spreads"] = True
    begun = remote.call("POST", "consolidation/apply", wanted)
    if as_json:
        tables.print_json(begun)
        return
    print(f"rollout {begun['id']} began; `cachepilot consolidate --rollout` shows it")


def show(remote: Controller, as_json: bool) -> None:
    """Print the last rollout, with the measurements of each move."""
    value = remote.call("GET", "consolidation/rollout")
    if as_json:
        tables.print_json(value)
        return
    if value is None:
        raise InputError("consolidate: no rollout was begun yet (allowed: after --apply)")
    out = tables.console()
    for part in parts(parsed(RolloutView, value)):
        out.print(part)


def stop(remote: Controller, as_json: bool) -> None:
    """Stop the running rollout."""
    value = remote.call("POST", "consolidation/stop")
    if as_json:
        tables.print_json(value)
    else:
        print(f"rollout {value['id']} stops; a move that is not confirmed yet is undone")


def parts(found: RolloutView) -> Iterator[RenderableType]:
    """Yield a table of the moves, then the state of the rollout."""
    yield _table(found)
    done = f"nodes drained: {', '.join(found.emptied) or 'none'}"
    if found.spreads:
        moved = sum(one.state is MoveState.KEPT for one in found.moves)
        done = f"tenants moved: {moved} of {len(found.moves)}"
    yield Text(f"rollout {found.id}: {found.state}; {done}", style="bold")
    if found.why:
        yield Text(found.why)
    for change in found.changes:
        yield Text(change)
    for one in found.rehearsals:
        yield from map(Text, rehearsals.lines(one))


def _table(found: RolloutView) -> Table:
    table = tables.new_table("moves, measured")
    tables.add_columns(table, ["tenant", "from", "to", "state"], "left")
    tables.add_columns(table, ["before op/s", "after op/s", "predicted", "seconds"])
    tables.add_columns(table, ["SLOs and keep"], "left")
    for one in found.moves:
        own = next((check for check in one.checks if check.cgroup == one.move.cgroup), None)
        table.add_row(
            one.move.cgroup,
            one.move.from_node,
            one.move.to_node,
            one.state.word,
            formats.count(None if own is None else own.before_ops),
            formats.count(None if own is None else own.after_ops),
            formats.count(one.move.predicted_ops or None),
            _seconds(one),
            _judged(one.checks),
        )
    return table


def _seconds(one: MovedView) -> str:
    if one.begun_s is None or one.ended_s is None:
        return "-"
    return f"{one.ended_s - one.begun_s:.1f}"


def _judged(checks: list[CheckView]) -> str:
    """Return in how many windows the SLOs were met, and how many `keep` checks were.

    A `keep` check is judged by its mean throughput.
    """
    slos = [one for one in checks if one.kind != KEEP]
    kept = [one for one in checks if one.kind == KEEP]
    told = []
    if slos:
        windows, met = sum(one.windows for one in slos), sum(one.met for one in slos)
        told.append(f"{met} of {windows} windows met")
    if kept:
        told.append(f"{sum(one.verdict == 'met' for one in kept)} of {len(kept)} keep")
    return ", ".join(told) or "-"
