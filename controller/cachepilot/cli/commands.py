# SPDX-License-Identifier: Apache-2.0
"""Every command, grouped by task, and the module that is imported when it is called.

The help's list of commands and the completion of their names use this table alone: importing the
modules of all commands takes longer than most commands run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from typer import Typer
from typer.main import get_command


@dataclass(frozen=True)
class Entry:
    """One command: its name, its location, and its line in the help.

    `attribute` of `module` is a function, or a `Typer` with commands of its own. `is_passed_on`
    means that another program parses the arguments, including `--help`.
    """

    name: str
    module: str
    attribute: str
    help: str
    is_passed_on: bool = False

    def load(self) -> Any:
        """Import the command and return it as a command that Typer runs."""
        found = getattr(import_module(f"cachepilot.cli.{self.module}"), self.attribute)
        if isinstance(found, Typer):
            found.info.name = self.name
            return get_command(found)
        # If the arguments are passed on, Typer must parse none of them, not even --help.
        passed_on: dict[str, Any] = {
            "allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []
        }  # fmt: skip
        alone = Typer(add_completion=False, rich_markup_mode=None)
        alone.command(
            name=self.name,
            context_settings=passed_on if self.is_passed_on else None,
            add_help_option=not self.is_passed_on,
        )(found)
        return get_command(alone)


TASKS: dict[str, tuple[Entry, ...]] = {
    "Watch": (
        Entry("status", "fleet.status", "command", "Show nodes and tenants, once or live."),
        Entry("top", "top.command", "command", "Watch tenants full screen."),
        Entry("explain", "fleet.explain", "command", "Explain the policy and memory of a tenant."),
        Entry("history", "fleet.history", "command", "Show changes and their outcomes."),
    ),
    "Objectives and changes": (
        Entry("slo", "fleet.slo", "app", "State, show and delete the objectives of tenants."),
        Entry("pin", "fleet.pin", "pin", "Fix the policy or the limit of a tenant."),
        Entry("unpin", "fleet.pin", "unpin", "Leave a pinned tenant to the autopilot again."),
        Entry("undo", "fleet.undo", "command", "Undo the last change of objectives or pins."),
        Entry("revert", "fleet.pin", "revert", "Roll back a change, for an hour."),
    ),
    "Planning": (
        Entry("plan", "fleet.plan", "command", "Predict the effect of other settings."),
        Entry("free", "fleet.free", "command", "Show which memory no tenant needs."),
        Entry("consolidate", "fleet.consolidate", "command", "Show which nodes could be drained."),
    ),
    "On a node": (
        Entry("doctor", "host.agent_commands", "doctor", "Check that the agent works here.", True),
        Entry("agent", "host.agent_commands", "run", "Run the agent of this node.", True),
        Entry("cachestat", "host.agent_commands", "cachestat", "Show the page cache live.", True),
        Entry("policy", "host.agent_commands", "policy", "Attach and swap policies by hand.", True),
        Entry("record", "host.agent_commands", "record", "Record page accesses to a trace.", True),
    ),
    "The controller": (
        Entry("controller", "host.controller", "app", "Run the controller, check it."),
    ),
    "Traces and policies": (
        Entry("policies", "traces.policies", "command", "List the eviction policies."),
        Entry("sim", "traces.sim", "command", "Simulate policies on a trace at one size."),
        Entry("mrc", "traces.mrc", "command", "Compute miss ratio curves of a trace."),
        Entry("compare", "traces.compare", "command", "Compare policies over several traces."),
        Entry("readahead", "traces.readahead", "command", "Simulate readahead on a trace."),
        Entry("trace", "traces.trace", "app", "Convert, generate and inspect traces."),
    ),
    "This program": (
        Entry("completion", "host.completion", "command", "Print the completion for a shell."),
        Entry("man", "host.man", "command", "Write the manual pages."),
        Entry("scorecard", "host.scorecard", "command", "Print the results of all experiments."),
        Entry("vm", "host.vm", "app", "Run a kernel in a virtual machine."),
    ),
}  # fmt: skip


def entries() -> Iterator[Entry]:
    """Yield all commands in the order of the help."""
    for group in TASKS.values():
        yield from group
