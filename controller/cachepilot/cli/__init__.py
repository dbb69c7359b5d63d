# SPDX-License-Identifier: Apache-2.0
"""The command `cachepilot`: one module per command, and the entry point that runs them."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer
from typer.main import get_command

from cachepilot import _models
from cachepilot.cli.fleet import consolidate, explain, history, pin, plan, slo, status
from cachepilot.cli.host import agent_commands, controller, scorecard, vm
from cachepilot.cli.traces import compare, mrc, policies, readahead, sim, trace
from cachepilot.errors import InputError

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="cachepilot",
    help="The page cache on autopilot: policies, simulation and miss ratio curves.",
    add_completion=False,
    invoke_without_command=True,
    rich_markup_mode=None,
)
app.command(name="sim")(sim.command)
app.command(name="readahead")(readahead.command)
app.command(name="mrc")(mrc.command)
app.command(name="compare")(compare.command)
app.command(name="policies")(policies.command)
app.command(name="scorecard")(scorecard.command)
app.command(name="status")(status.command)
app.command(name="explain")(explain.command)
app.command(name="history")(history.command)
app.command(name="pin")(pin.pin)
app.command(name="unpin")(pin.unpin)
app.command(name="revert")(pin.revert)
app.command(name="plan")(plan.command)
app.command(name="consolidate")(consolidate.command)
for name, command in {
    "agent": agent_commands.run,
    "policy": agent_commands.policy,
    "doctor": agent_commands.doctor,
    "record": agent_commands.record,
    "cachestat": agent_commands.cachestat,
}.items():
    settings = agent_commands.CONTEXT
    app.command(name=name, context_settings=settings, add_help_option=False)(command)
app.add_typer(controller.app, name="controller")
app.add_typer(slo.app, name="slo")
app.add_typer(trace.app, name="trace")
app.add_typer(vm.app, name="vm")


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
    """The page cache on autopilot: policies, simulation and miss ratio curves."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def _refuse(message: str) -> int:
    print(f"cachepilot: error: {' '.join(message.split())}", file=sys.stderr)
    return EXIT_BAD_INPUT


def _invoke(arguments: Sequence[str]) -> int:
    command = get_command(app)
    try:
        status = command.main(list(arguments), prog_name="cachepilot", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    if status == EXIT_INTERRUPTED:
        print("cachepilot: interrupted", file=sys.stderr)
    return status if isinstance(status, int) else 0


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit status.

    0 when it worked; 2 after bad input, with one line on stderr; 130 after Ctrl-C; 1 when the
    reader of stdout went away.
    """
    try:
        return _invoke(arguments)
    except typer.TyperException as error:
        return _refuse(error.format_message())
    except (InputError, _models.ModelsError, UnicodeError) as error:
        return _refuse(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def main() -> None:
    """Entry point of the script `cachepilot`."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:]))
