# SPDX-License-Identifier: Apache-2.0
"""The options of every command that connects to the controller: its URL and the credentials."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from cachepilot.cli.asking.client import DEFAULT_URL, URL_VARIABLE, Controller
from cachepilot.cli.asking.credentials import Credentials, variable
from cachepilot.cli.terminal.output import Form, OutputOption, printed_as
from cachepilot.errors import InputError

ControllerOption = Annotated[
    str,
    typer.Option(
        "--controller", metavar="URL", envvar=URL_VARIABLE, help="Where the controller listens."
    ),
]
_HELP = {
    "ca": "CA of the controller's certificate, PEM; default: those that the system trusts.",
    "certificate": "Client certificate, PEM.",
    "key": "The key of --certificate, PEM.",
    "token_file": "File whose only line is a viewer's or an operator's token.",
}


def _parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _file_option(name: str) -> inspect.Parameter:
    option = typer.Option(
        f"--{name.replace('_', '-')}", metavar="FILE", envvar=variable(name), help=_HELP[name]
    )
    return _parameter(name, Annotated[Path | None, option], None)


def _form(options: dict[str, Any]) -> Form:
    """Return the requested form, and set `as_json` if a program reads the output.

    Raises InputError for `--json` together with another form.
    """
    form: Form = options.pop("output", Form.TABLE)
    if options.get("as_json"):
        if form not in (Form.TABLE, Form.JSON):
            raise InputError(f"--output {form}: --json says otherwise (allowed: one of them)")
        return Form.JSON
    if form.is_data:
        options["as_json"] = True
    return form


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of a connection in place of its parameter `remote`.

    A command that can print JSON (`as_json`) gets an option for every other output form, too.
    """
    own = inspect.signature(command, eval_str=True)
    files = [one.name for one in fields(Credentials)]
    added = [_parameter("controller", ControllerOption, DEFAULT_URL), *map(_file_option, files)]
    kept = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, one in own.parameters.items()
        if name != "remote"
    ]
    if "as_json" in own.parameters:
        kept.append(_parameter("output", OutputOption, Form.TABLE))

    @functools.wraps(command)
    def asked(controller: str, **options: object) -> None:
        credentials = Credentials(*(options.pop(name) for name in files))  # type: ignore[arg-type]
        with printed_as(_form(options)):
            command(remote=Controller(controller, credentials), **options)

    signature = own.replace(parameters=[*kept, *added])
    # Typer reads both the signature and the annotations.
    asked.__signature__ = signature  # type: ignore[attr-defined]
    asked.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    return asked
