# SPDX-License-Identifier: Apache-2.0
"""`cachepilot status`: the present state of nodes and tenants, once or continuously."""

import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from cachepilot.api.shapes.views import NodeView, TenantView
from cachepilot.cli.asking import completing
from cachepilot.cli.asking.asking import asking
from cachepilot.cli.asking.client import Controller, ControllerError, parsed
from cachepilot.cli.fleet import status_table
from cachepilot.cli.terminal import tables
from cachepilot.cli.terminal.options import JsonOption


@dataclass(frozen=True)
class State:
    """The controller's JSON of nodes and tenants."""

    nodes: list[dict[str, Any]]
    tenants: list[dict[str, Any]]

    @classmethod
    def of(cls, controller: Controller, node: str | None) -> "State":
        """Request both; with `node`, only that node and its tenants."""
        tenants = controller.call("GET", "tenants", node=node)
        nodes = controller.call("GET", "nodes")
        return cls([one for one in nodes if node in (None, one["name"])], tenants)

    def as_object(self) -> dict[str, Any]:
        """Return the JSON as received."""
        return {"nodes": self.nodes, "tenants": self.tenants}

    def table(self, width: int) -> RenderableType:
        """Return the state as a table for people."""
        nodes = parsed(list[NodeView], self.nodes)
        tenants = parsed(list[TenantView], self.tenants)
        return status_table.status(nodes, tenants, width)


def _look(controller: Controller, node: str | None, interval: float) -> None:
    """Redraw until Ctrl-C; during an outage show the error above the last state.

    At the end the terminal's old content is restored, and the last state printed below it.
    """
    from rich.live import Live  # noqa: PLC0415

    out = tables.console()
    seen: RenderableType = ""
    with suppress(KeyboardInterrupt), Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            try:
                seen = State.of(controller, node).table(out.width)
                shown = seen
            except ControllerError as error:
                shown = Group(Text(str(error), style="bold red"), "", seen)
            live.update(shown, refresh=True)
            time.sleep(interval)
    out.print(seen)


def _follow(controller: Controller, node: str | None, interval: float, as_json: bool) -> None:
    """Print one state after the other, for a pipe: tables, or one line of JSON each."""
    with suppress(KeyboardInterrupt):
        while True:
            state = State.of(controller, node)
            if as_json:
                tables.print_json(state.as_object(), indent=None)
                sys.stdout.flush()
            else:
                out = tables.console()
                out.print(state.table(out.width))
            time.sleep(interval)


@asking
def command(
    remote: Controller,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Only this node and its tenants.", autocompletion=completing.nodes
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Redraw until Ctrl-C, which ends with 0.")
    ] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, max=3600, help="Pause of --watch.")
    ] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Show nodes and tenants: policy, memory, hit ratio, throughput, SLOs, the last decision.

    Before each SLO stands the share of the windows of the last hour in which it was met. Where
    the terminal is narrow, columns are left out. With --watch into a pipe, --json prints one line
    per state.
    """
    if watch:
        State.of(remote, node)
        if as_json or not tables.console().is_terminal:
            _follow(remote, node, interval, as_json)
        else:
            _look(remote, node, interval)
        return
    state = State.of(remote, node)
    if as_json:
        tables.print_json(state.as_object())
    else:
        out = tables.console()
        out.print(state.table(out.width))
