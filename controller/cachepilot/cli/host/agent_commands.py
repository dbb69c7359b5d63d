# SPDX-License-Identifier: Apache-2.0
"""Commands of the node's agent: this process executes it, with its arguments and its help."""

import os

import typer

from cachepilot import agent

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Typer's settings for these commands: it parses no argument, not even --help."""


def _become(*words: str) -> None:
    program = agent.find(os.environ)
    environment = agent.environment_for(program, os.environ)
    os.execve(program, ["cachepilot", *words], environment)


def policy(context: typer.Context) -> None:
    """Attach, swap, detach, set, show and verify policies of cgroups in the kernel."""
    _become("policy", *context.args)


def run(context: typer.Context) -> None:
    """Run the agent of this node: `cachepilot agent run --config FILE`, or check-config, ..."""
    _become(*context.args)


def doctor(context: typer.Context) -> None:
    """Prove on this host that every hook fires and every limit works; name what is missing."""
    _become("doctor", *context.args)


def cachestat(context: typer.Context) -> None:
    """Watch hits, misses, curves and cold bytes of cgroups live; it changes nothing."""
    _become("cachestat", *context.args)


def record(context: typer.Context) -> None:
    """Record the sampled accesses of cgroups to a trace file that `mrc` reads."""
    _become("record", *context.args)
