# SPDX-License-Identifier: Apache-2.0
"""`cachepilot history`: decisions, what was predicted of them, and what came of them."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from cachepilot.api.shapes.views import DecisionView
from cachepilot.cli.asking.asking import asking
from cachepilot.cli.asking.client import Controller, NodeOption, parsed
from cachepilot.cli.terminal import formats, tables
from cachepilot.cli.terminal.options import JsonOption

WHY_COLUMNS = 150
STYLES = {"kept": "green", "reverted": "red", "abandoned": "red"}


def _change(row: DecisionView) -> str:
    def step(before: str, after: str) -> str:
        return after if before == after else f"{before} → {after}"

    policy = step(row.from_policy, row.to_policy)
    memory = step(formats.limit(row.from_limit_bytes), formats.limit(row.to_limit_bytes))
    return f"{policy}, {memory}"


def decisions_table(rows: list[DecisionView], width: int) -> Table:
    """A row per decision, times in UTC; why only where there is room for it."""
    table = tables.new_table()
    tables.add_columns(table, ["id"])
    tables.add_columns(table, ["time (UTC)", "node", "tenant", "event", "change"], "left")
    tables.add_columns(table, ["ops/s before", "predicted", "measured"])
    if width >= WHY_COLUMNS:
        table.add_column("why", overflow="ellipsis")
    for row in rows:
        cells: list[str | Text] = [
            str(row.id),
            f"{datetime.fromtimestamp(row.time_s, UTC):%m-%d %H:%M:%S}",
            row.node,
            row.cgroup,
            Text(row.event, style=STYLES.get(row.event, "")),
            _change(row),
            formats.count(row.baseline_ops),
            formats.count(row.predicted_ops),
            formats.count(row.measured_ops),
            Text(row.why, no_wrap=True, overflow="ellipsis"),
        ]
        table.add_row(*cells[: len(table.columns)])
    return table


def nothing_text(tenant: str | None, node: str | None) -> str:
    """What is said where there is no row: whether that is for what was asked for alone."""
    asked = [f"{key} {value}" for key, value in (("tenant", tenant), ("node", node)) if value]
    return f"no decision matches {', '.join(asked)}" if asked else "no decisions yet"


@asking
def command(
    remote: Controller,
    tenant: Annotated[
        str | None, typer.Argument(metavar="[TENANT]", help="Only this cgroup, like /db.")
    ] = None,
    node: NodeOption = None,
    limit: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", min=1, max=1000, help="How many.")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show the last decisions, the newest first."""
    rows = remote.call("GET", "history", cgroup=tenant, node=node, limit=limit)
    if not rows and tenant is not None:
        # A cgroup that is gone still has a history; only a name without one must be a tenant's.
        cgroup = remote.cgroup(tenant, node)
        rows = remote.call("GET", "history", cgroup=cgroup, node=node, limit=limit)
    if as_json:
        tables.print_json(rows)
    elif rows:
        out = tables.console()
        out.print(decisions_table(parsed(list[DecisionView], rows), out.width))
    else:
        print(nothing_text(tenant, node))
