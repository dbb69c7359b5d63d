# SPDX-License-Identifier: Apache-2.0
"""Orders that cost an SLO: what they cost is shown, and a person is asked."""

import sys
from typing import Annotated, Any

import typer

from cachepilot.api.shapes.errors import ACCEPTABLE
from cachepilot.cli.asking.client import ConflictAtControllerError, Controller

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do it although an SLO will be missed; do not ask.")
]


def require_somebody(told: str) -> None:
    """Raises ConflictAtControllerError, which says what is `told`, where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConflictAtControllerError(f"{told} (allowed: with --yes)")


def require_agreed(question: str, otherwise: str) -> None:
    """Asks; raises ConflictAtControllerError, which says what is `otherwise`, for a no."""
    if not typer.confirm(question, err=True):
        raise ConflictAtControllerError(otherwise)


def ordered(controller: Controller, path: str, wanted: dict[str, Any], yes: bool) -> Any:
    """The answer to an order. One that will miss an SLO needs `yes`, or a person who agrees.

    Raises ConflictAtControllerError, which says what it would cost, when nobody can be asked.
    """
    try:
        return controller.call("POST", path, wanted)
    except ConflictAtControllerError as error:
        if not str(error).endswith(ACCEPTABLE):
            raise
        cost = str(error).removesuffix(ACCEPTABLE)
    if not yes:
        require_somebody(cost)
    print(cost, file=sys.stderr)
    if not yes:
        require_agreed("Do it all the same?", "nothing was changed")
    return controller.call("POST", path, {**wanted, "accept_missed_slos": True})
