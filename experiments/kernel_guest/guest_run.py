# SPDX-License-Identifier: Apache-2.0
"""Runs named steps in the guest, and reads what each printed even if the machine dies."""

import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cachepilot import agent
from cachepilot.vm import Machine, VmError, run

LIBRARY = Path(__file__).resolve().parent / "guest.sh"
STARTED = time.monotonic()
PREPARATION_FAILED = 99


def say(message: str) -> None:
    """Print one line of progress to stderr, with the seconds since the start."""
    print(f"[{time.monotonic() - STARTED:5.0f} s] {message}", file=sys.stderr, flush=True)


class GuestError(Exception):
    """A step did not do what it should. The message is one line."""


@dataclass(frozen=True)
class Step:
    """A shell command of the guest, with the functions of guest.sh. Its output is kept."""

    name: str
    command: str


@dataclass(frozen=True)
class Guest:
    """The machine, and the shell lines that prepare each boot of it."""

    machine: Machine
    out: Path
    prepare: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)
    most_boots: int = 4


def _script(guest: Guest, steps: Sequence[Step]) -> Path:
    program = agent.find(os.environ)
    variables = {
        "OUT": str(guest.out),
        agent.BINARY_VARIABLE: str(program),
        agent.POLICIES_VARIABLE: agent.environment_for(program, os.environ).get(
            agent.POLICIES_VARIABLE, ""
        ),
        **guest.environment,
    }
    lines = ["#!/usr/bin/env bash", "set -uo pipefail"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    lines += [f". {shlex.quote(str(LIBRARY))}"]
    lines += [f"{line} || exit {PREPARATION_FAILED}" for line in guest.prepare]
    for step in steps:
        lines += ["body() {", step.command, "}", f"step {shlex.quote(step.name)} body"]
    lines.append("exit 0")
    path = guest.out / "script.sh"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    path.chmod(0o755)
    return path


def _show(data: bytes) -> None:
    for line in data.decode("utf-8", "replace").splitlines():
        say(f"  {line}")


def _boot(guest: Guest, steps: Sequence[Step]) -> str:
    """Run the steps in one machine. Return what went wrong with it, or an empty string."""
    script = _script(guest, steps)
    machine = replace(guest.machine, shares=(guest.out,))
    try:
        done = run(machine, ["bash", str(script)], on_output=_show)
    except VmError as error:
        return str(error)
    (guest.out / "kernel.log").write_text(done.kernel_log, "utf-8")
    if done.returncode == PREPARATION_FAILED:
        reason = (done.errors or done.output).strip()[-300:]
        raise GuestError(f"the guest could not be prepared: {reason}")
    return "" if done.returncode == 0 else f"status {done.returncode}: {done.errors[-300:]}"


def run_steps(guest: Guest, steps: Sequence[Step]) -> dict[str, str]:
    """Return what every step printed, by name. Failed steps are missing and have been reported.

    When the machine dies, the step that was running has failed, and another boot runs the rest.
    """
    shutil.rmtree(guest.out, ignore_errors=True)
    guest.out.mkdir(parents=True)
    left = list(steps)
    for boot in range(guest.most_boots):
        if not left:
            break
        say(f"boot {boot + 1}: {len(left)} steps")
        trouble = _boot(guest, left)
        left = [step for step in left if not _outcome(guest, step)]
        if left:
            (guest.out / f"{left[0].name}.failed").write_text(f"{trouble}\n", "utf-8")
            say(f"{left[0].name}: the virtual machine ended: {trouble}")
            left = left[1:]
    return outputs_of(guest, steps)


def outputs_of(guest: Guest, steps: Sequence[Step]) -> dict[str, str]:
    """Return what every step printed in the last run. Missing steps are reported."""
    found = {}
    for step in steps:
        path = guest.out / f"{step.name}.out"
        if path.is_file():
            found[step.name] = path.read_text("utf-8")
            continue
        failed = guest.out / f"{step.name}.failed"
        reason = failed.read_text("utf-8").strip()[-300:] if failed.is_file() else "never ran"
        say(f"{step.name} FAILED: {reason}")
    return found


def _outcome(guest: Guest, step: Step) -> bool:
    return any((guest.out / f"{step.name}{suffix}").exists() for suffix in (".out", ".failed"))


@dataclass(frozen=True)
class Lines:
    """The JSON lines that a guest program printed, by what they are about."""

    start: dict[str, Any]
    warm: dict[str, Any]
    end: dict[str, Any]
    ticks: list[dict[str, Any]]
    result: dict[str, Any]

    @classmethod
    def parse(cls, text: str, name: str) -> "Lines":
        """Parse the output. Raises GuestError when a line is missing."""
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        by_name: dict[str, dict[str, Any]] = {line["at"]: line for line in lines}
        for needed in ("warm", "end"):
            if needed not in by_name:
                raise GuestError(f"{name}: no line {needed!r}")
        ticks = [line for line in lines if line["at"] == "tick"]
        empty: dict[str, Any] = {}
        start = by_name.get("start", empty)
        return cls(start, by_name["warm"], by_name["end"], ticks, by_name.get("result", empty))

    def measured(self, read: Callable[[dict[str, Any]], float]) -> float:
        """Return how much a counter grew from the end of the warm-up to the end."""
        return read(self.end) - read(self.warm)

    @property
    def seconds(self) -> float:
        """Length of the measured part."""
        return self.measured(lambda line: line["ns"]) / 1e9

    @property
    def accesses_per_second(self) -> float:
        """Accesses per second in the measured part."""
        return self.measured(lambda line: line["accesses"]) / self.seconds

    @property
    def block_read_pages(self) -> float:
        """Pages of 4 KiB that the disk delivered in the measured part."""
        return self.measured(lambda line: line["block_sectors"]) / 8
