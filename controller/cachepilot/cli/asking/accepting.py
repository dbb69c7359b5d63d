# SPDX-License-Identifier: Apache-2.0
"""Orders that cost an SLO: what they cost is shown, and a person is asked."""

import sys
from typing import Annotated, Any

import typer

from cachepilot.cli.asking.client import ConflictAtControllerError, Controller

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do it although an SLO will be missed; do not ask.")
]
_HINT = " (accept_missed_slos: true accepts it)"


def ordered(controller: Controller, path: str, wanted: dict[str, Any], yes: bool) -> Any:
    """The answer to an order. One that will miss an SLO needs `yes`, or a person who agrees.

    Raises ConflictAtControllerError, which says what it would cost, when nobody can be asked.
    """
    try:
        return controller.call("POST", path, wanted)
    except ConflictAtControllerError as error:
        cost = str(error).removesuffix(_HINT)
        if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
            allowed = "allowed: with --yes"
            raise ConflictAtControllerError(f"{cost} ({allowed})") from None
    print(cost, file=sys.stderr)
    if not yes and not typer.confirm("Do it all the same?", err=True):
        raise ConflictAtControllerError("nothing was changed")
    return controller.call("POST", path, {**wanted, "accept_missed_slos": True})
