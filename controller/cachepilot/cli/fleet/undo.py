# SPDX-License-Identifier: Apache-2.0
"""`cachepilot undo`: undoes the last change of objectives or pins."""

from typing import Annotated

import typer

from cachepilot.api.shapes.questions import StatedChange
from cachepilot.cli.asking.accepting import YesOption, ordered
from cachepilot.cli.asking.asking import asking
from cachepilot.cli.asking.client import Controller, parsed
from cachepilot.cli.terminal import tables
from cachepilot.cli.terminal.options import JsonOption
from cachepilot.readable import moment


@asking
def command(
    remote: Controller,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be undone; change nothing.")
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Undo the last change of objectives or pins, whoever made it; repeat to go further back."""
    last = remote.call("GET", "undo")
    one = parsed(StatedChange, last)
    if not dry_run:
        # The number makes sure that a change by somebody else meanwhile is not undone.
        ordered(remote, "undo", {"change": one.change}, yes)
    if as_json:
        tables.print_json(last)
        return
    done = "would be undone" if dry_run else "undone"
    print(f"{done}: {one.what} ({moment(one.time_s)})")
