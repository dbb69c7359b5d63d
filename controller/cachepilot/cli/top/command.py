# SPDX-License-Identifier: Apache-2.0
"""`cachepilot top`: watch tenants full screen."""

import sys
from typing import Annotated

import typer

from cachepilot.cli.asking import completing
from cachepilot.cli.asking.asking import asking
from cachepilot.cli.asking.client import Controller
from cachepilot.errors import InputError


@asking
def command(
    remote: Controller,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Only this node and its tenants.", autocompletion=completing.nodes
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, max=3600, help="Pause between two updates.")
    ] = 1.0,
) -> None:
    """Watch tenants full screen: sort, filter, and drill down into one.

    Keys: / filters, Esc shows all, < and > choose the column to sort by, r reverses, j and k or the
    arrows move, Enter opens a tenant (e explains it, h shows its history, Esc goes back), q quits.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("top: needs a terminal; for a pipe there is `cachepilot status --watch`")
    remote.nodes()
    # Textual takes longer to import than other commands take to run.
    from cachepilot.cli.top.app import TopApp  # noqa: PLC0415

    TopApp(remote, node, interval).run()
