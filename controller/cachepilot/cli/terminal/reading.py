# SPDX-License-Identifier: Apache-2.0
"""The options for reading a trace, shared by all commands about traces."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from cachepilot import _models
from cachepilot.sizes import parse_bytes

ARGUMENT = "reading"


def _options(
    format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Format of the trace, whatever its suffix."),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Column of a CSV trace that holds the page keys; with --offset, the file.",
        ),
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Column of a CSV trace that holds where a request starts, bytes."
        ),
    ] = None,
    length: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Column of a CSV trace that holds how long a request is, bytes."
        ),
    ] = None,
    page_size: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="Page of the byte ranges of vscsi, msr, arc, and csv with --offset: a power of "
            "two, 512 to 1GiB. [default: 4KiB; arc: 512, its block]",
        ),
    ] = None,
    whole_requests: Annotated[
        bool,
        typer.Option(
            "--whole-requests", help="A byte range is one request, not one for each of its pages."
        ),
    ] = False,
) -> _models.TraceOptions:
    """Return the options as one value; reading refuses those that do not fit the trace."""
    page_bytes = None if page_size is None else parse_bytes(page_size)
    return _models.TraceOptions(format, column, offset, length, page_bytes, whole_requests)


def reads_traces(command: Callable[..., None]) -> Callable[..., None]:
    """Add these options to a command, which gets them together in its argument `reading`."""
    own = inspect.signature(command)
    shared = list(inspect.signature(_options).parameters.values())
    kept = [parameter for parameter in own.parameters.values() if parameter.name != ARGUMENT]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        chosen = {one.name: given.pop(one.name) for one in shared}
        command(**given, **{ARGUMENT: _options(**chosen)})

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in [*kept, *shared]]
    with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return with_options
