# SPDX-License-Identifier: Apache-2.0
"""`cachepilot policy ...`: the agent's command of that name, with its arguments and its help."""

import os

import typer

from cachepilot import agent

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def command(context: typer.Context) -> None:
    """Attach, swap, detach, set, show and verify policies of cgroups in the kernel."""
    program = agent.find(os.environ)
    environment = agent.environment_for(program, os.environ)
    os.execve(program, ["cachepilot", "policy", *context.args], environment)
