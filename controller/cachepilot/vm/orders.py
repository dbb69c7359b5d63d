# SPDX-License-Identifier: Apache-2.0
"""Orders for the guest's first process: a file of entries NAME=VALUE, each ended by a zero byte."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cachepilot.errors import InputError
from cachepilot.vm.machine import Machine

COVERED = ("/tmp", "/run", "/mnt", "/var/tmp")
"""Folders that are empty in the guest; kernel/vm/guest_mounts.c has the same."""


@dataclass(frozen=True)
class Terminal:
    """Size of the shell's terminal, in characters."""

    rows: int
    columns: int


def encode(machine: Machine, command: Sequence[str], terminal: Terminal | None) -> bytes:
    """Return the file's content; raise InputError if an entry contains a zero byte."""
    entries = list(_entries(machine, command, terminal))
    if any("\0" in entry for entry in entries):
        raise InputError("the command, a variable or a path has a zero byte")
    return b"".join(os.fsencode(entry) + b"\0" for entry in entries)


def _entries(machine: Machine, command: Sequence[str], terminal: Terminal | None) -> Iterator[str]:
    cwd = machine.cwd or Path.cwd()
    environment = os.environ if machine.environment is None else machine.environment
    yield f"cwd={cwd}"
    if machine.filesystem != "none":
        yield f"filesystem={machine.filesystem}"
    for path in kept(cwd, environment.get("PATH", "")):
        yield f"keep={path}"
    for share in machine.shares:
        yield f"share={share.resolve()}"
    if terminal is not None:
        yield "shell=1"
        yield f"rows={terminal.rows}"
        yield f"columns={terminal.columns}"
    for word in command:
        yield f"argument={word}"
    for name, value in environment.items():
        yield f"environment={name}={value}"


def kept(cwd: Path, search_path: str) -> list[str]:
    """Return folders that the command needs although they are inside a covered folder."""
    folders = [str(cwd), *search_path.split(":")]
    inside = [
        folder
        for folder in dict.fromkeys(folders)
        if any(folder.startswith(f"{covered}/") for covered in COVERED)
    ]
    return sorted(inside, key=len)
