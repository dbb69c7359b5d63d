# SPDX-License-Identifier: Apache-2.0
"""Orders that are predicted to miss an SLO: shows the cost and asks for consent."""

import sys
from typing import Annotated, Any

import typer

from cachepilot.api.shapes.errors import ACCEPTABLE
from cachepilot.cli.asking.client import ConflictAtControllerError, Controller

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Proceed even if an SLO will be missed; do not ask.")
]


def require_somebody(told: str) -> None:
    """Raise ConflictAtControllerError with the text `told` if stdin or stderr is not a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConflictAtControllerError(f"{told} (allowed: with --yes)")


def require_agreed(question: str, otherwise: str) -> None:
    """Ask the question; for a no raise ConflictAtControllerError with the text `otherwise`."""
    if not typer.confirm(question, err=True):
        raise ConflictAtControllerError(otherwise)


def ordered(controller: Controller, path: str, wanted: dict[str, Any], yes: bool) -> Any:
    """Send an order and return the answer; if it misses an SLO, `yes` or consent is needed.

    Raises ConflictAtControllerError with the cost if no person can be asked.
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
        require_agreed("Proceed anyway?", "nothing was changed")
    return controller.call("POST", path, {**wanted, "accept_missed_slos": True})
