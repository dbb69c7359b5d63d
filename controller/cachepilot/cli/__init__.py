# SPDX-License-Identifier: Apache-2.0
"""The command `cachepilot`: the entry point that runs the commands of `commands`."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]
from typer.main import get_command

from cachepilot import _models
from cachepilot.cli.lazy import VARIABLE, LazyGroup
from cachepilot.errors import InputError

# There are no pydantic plugins, and the search for them reads the metadata of every package.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""The status that a shell reports for a program killed by SIGPIPE: 128 plus the signal's number."""


app = typer.Typer(
    name="cachepilot",
    cls=LazyGroup,
    help="The page cache on autopilot: a policy and a memory limit for every cgroup.",
    add_completion=False,
    invoke_without_command=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"cachepilot {_models.version()}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """The page cache on autopilot: a policy and a memory limit for every cgroup."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def _refuse(message: str) -> int:
    print(f"cachepilot: error: {' '.join(message.split())}", file=sys.stderr)
    return EXIT_BAD_INPUT


def _invoke(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status; also answers a shell's completion requests.

    The command's `main` is not used for commands, because it exits the process when the reader of
    stdout has closed the pipe. It is used for completion requests.
    """
    command = get_command(app)
    if VARIABLE in os.environ:
        completion_init()
        command.main(list(arguments), prog_name="cachepilot")
    try:
        with command.make_context("cachepilot", list(arguments)) as context:
            command.invoke(context)
        status = 0
    except typer.Exit as end:
        status = end.exit_code
    except (KeyboardInterrupt, typer.Abort):
        status = EXIT_INTERRUPTED
    sys.stdout.flush()
    if status == EXIT_INTERRUPTED:
        print("cachepilot: interrupted", file=sys.stderr)
    return status


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status.

    0: success. 2: bad input, with one line on stderr. 130: Ctrl-C. 141, as for a program killed by
    SIGPIPE: the reader of stdout closed the pipe, as `head` does.
    """
    try:
        return _invoke(arguments)
    except typer.TyperException as error:
        return _refuse(error.format_message())
    except (InputError, _models.ModelsError, UnicodeError) as error:
        return _refuse(str(error))
    except BrokenPipeError:
        # Python flushes stdout once more at exit, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def main() -> None:
    """Entry point of the script `cachepilot`."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:]))
