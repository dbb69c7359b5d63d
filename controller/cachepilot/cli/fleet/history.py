# SPDX-License-Identifier: Apache-2.0
"""`cachepilot history`: past changes, their authors, predictions and outcomes."""

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from cachepilot.api.shapes.changes import ChangeView
from cachepilot.cli.asking import completing
from cachepilot.cli.asking.asking import asking
from cachepilot.cli.asking.client import Controller, NodeOption, parsed
from cachepilot.cli.terminal import formats, tables
from cachepilot.cli.terminal.names import shortened
from cachepilot.cli.terminal.options import JsonOption
from cachepilot.domain.past.change import ChangeKind, ChangeState
from cachepilot.errors import InputError

WHY_COLUMNS = 150
LEFT_OUT = (
    (140, ("ops/s before", "predicted", "measured")),
    (90, ("took", "node")),
)
"""Columns to omit if the terminal has fewer columns than the number before them."""
CUT = ("change", "by", "why")
"""Columns with texts of any length, which are cut to fit; no other column is."""
TENANT_COLUMNS_MIN = 16
NUMBERS = ("id", "ops/s before", "predicted", "measured")
STYLES = {"confirmed": "green", "undone": "red", "abandoned": "red", "refused": "red"}
AGO = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)", re.ASCII)
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
TIMES = "a time ago like 30m, 24h or 7d, or a time in UTC like 2026-11-27T08:00"


def parse_time(option: str, text: str, now_s: float) -> float:
    """Return seconds since 1970; InputError names the option and the allowed forms."""
    ago = AGO.fullmatch(text.strip())
    if ago is not None:
        return now_s - float(ago[1]) * SECONDS[ago[2]]
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(f"{option} {text}: not a time (allowed: {TIMES})") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _cells(row: ChangeView) -> dict[str, str | Text]:
    took = "" if row.ended_s is None else formats.duration(row.ended_s - row.begun_s)
    times = f" ({row.count} times)" if row.count > 1 else ""
    return {
        "id": str(row.id),
        "begun (UTC)": f"{datetime.fromtimestamp(row.begun_s, UTC):%m-%d %H:%M:%S}",
        "took": took,
        "node": row.node or "all",
        "tenant": row.cgroup or formats.UNKNOWN,
        "state": Text(str(row.state), style=STYLES.get(row.state, "")),
        "change": f"{row.text}{times}",
        "by": row.by,
        "ops/s before": formats.count(row.baseline_ops),
        "predicted": formats.count(row.predicted_ops),
        "measured": formats.count(row.measured_ops),
        "why": row.outcome or row.why,
    }


def changes_table(rows: list[ChangeView], width: int) -> Table:
    """Return a table with a row per change, times in UTC; the reason only in a wide terminal."""
    told = [_cells(row) for row in rows]
    names = shortened([str(one["tenant"]) for one in told], max(TENANT_COLUMNS_MIN, width // 4))
    left_out = {name for least, these in LEFT_OUT if width < least for name in these}
    left_out |= set() if width >= WHY_COLUMNS else {"why"}
    table = tables.new_table()
    for name in told[0] if told else ():
        if name not in left_out:
            justify: JustifyMethod = "right" if name in NUMBERS else "left"
            # rich takes missing width from columns that may wrap.
            table.add_column(name, justify=justify, no_wrap=name not in CUT)
    for one in told:
        one["tenant"] = names[str(one["tenant"])]
        for name in CUT:
            one[name] = Text(str(one[name]), no_wrap=True, overflow="ellipsis")
        table.add_row(*(cell for name, cell in one.items() if name not in left_out))
    return table


def nothing_text(asked: Mapping[str, object]) -> str:
    """Return the text for an empty result: whether there are no changes, or none that match."""
    given = [f"{key} {value}" for key, value in asked.items() if value is not None]
    return f"no change matches {', '.join(given)}" if given else "no changes yet"


@asking
def command(
    remote: Controller,
    tenant: Annotated[
        str | None,
        typer.Argument(
            metavar="[TENANT]",
            help="Only this cgroup, like /db.",
            autocompletion=completing.tenants,
        ),
    ] = None,
    node: NodeOption = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Begun since {TIMES}.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begun until then, in the form of --since.")
    ] = None,
    event: Annotated[
        ChangeState | None, typer.Option("--event", "--state", help="Only changes in this state.")
    ] = None,
    kind: Annotated[ChangeKind | None, typer.Option(help="Only changes of this kind.")] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="WHO", help="Only by authors with this in their name."),
    ] = None,
    limit: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", min=1, max=1000, help="How many.")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show what was changed or refused, by whom and what came of it, the newest first."""
    now_s = time.time()
    since_s = None if since is None else parse_time("--since", since, now_s)
    until_s = None if until is None else parse_time("--until", until, now_s)
    asked = {"node": node, "since": since_s, "until": until_s, "state": event, "kind": kind}
    asked["by"] = by
    rows = remote.call("GET", "changes", cgroup=tenant, limit=limit, **asked)
    if not rows and tenant is not None:
        # A removed cgroup still has a history, so only a name without history must be a tenant's.
        cgroup = remote.cgroup(tenant, node)
        rows = remote.call("GET", "changes", cgroup=cgroup, limit=limit, **asked)
    if as_json:
        tables.print_json(rows)
    elif rows:
        out = tables.console()
        out.print(changes_table(parsed(list[ChangeView], rows), out.width))
    else:
        print(nothing_text({"tenant": tenant, **asked, "since": since, "until": until}))
