# SPDX-License-Identifier: Apache-2.0
"""`cachepilot man`: the manual pages, generated from the commands themselves."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cachepilot import agent
from cachepilot.cli.commands import TASKS, Entry, entries
from cachepilot.errors import InputError

ROOT = "cachepilot"
ONE_LINE = "the page cache on autopilot"
AGENT_SECONDS = 10.0
EXIT_STATUS = [
    ("0", "It worked."),
    ("2", "The input was refused; one line on stderr says why."),
    ("130", "Ctrl-C."),
]


def escaped(text: str) -> str:
    """Return text in which troff finds no request and no escape."""
    lines = text.replace("\\", "\\(rs").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)


def _head(name: str, line: str) -> Iterator[str]:
    yield f'.TH "{name.upper().replace(" ", "-")}" 1 "" "cachepilot" "cachepilot manual"'
    yield f".SH NAME\n{escaped(name.replace(' ', '-'))} \\- {escaped(line.rstrip('.'))}"


def _paragraphs(text: str) -> Iterator[str]:
    for part in text.split("\n\n"):
        yield f".PP\n{escaped(' '.join(part.split()))}"


def _listed(rows: list[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in rows:
        yield f".TP\n.B {escaped(term)}\n{escaped(' '.join(meaning.split()))}"


def _page(command: Any, context: Any, name: str, line: str) -> Iterator[str]:
    yield from _head(name, line)
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f".SH SYNOPSIS\n.B {escaped(name)}\n{escaped(pieces)}"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command.help or line)
    records = [one.get_help_record(context) for one in command.get_params(context)]
    rows = [one for one in records if one is not None]
    if rows:
        yield ".SH OPTIONS"
        yield from _listed(rows)
    if isinstance(command, TyperGroup):
        yield ".SH COMMANDS"
        listed = [
            (one, command.get_command(context, one)) for one in command.list_commands(context)
        ]
        yield from _listed([(one, (found and found.help) or "") for one, found in listed])
    yield f".SH SEE ALSO\n.BR {ROOT} (1)"


def _passed_on(entry: Entry) -> Iterator[str]:
    """Yield the page of an agent's command, which contains the agent's own help."""
    name = f"{ROOT} {entry.name}"
    yield from _head(name, entry.help)
    words = [] if entry.name == "agent" else [entry.name]
    program = agent.find(os.environ)
    done = subprocess.run(
        [program, *words, "--help"],
        capture_output=True,
        text=True,
        timeout=AGENT_SECONDS,
        check=True,
    )
    yield f".SH DESCRIPTION\n.nf\n{escaped(done.stdout.rstrip())}\n.fi"
    yield f".SH SEE ALSO\n.BR {ROOT} (1)"


def _root() -> Iterator[str]:
    yield from _head(ROOT, ONE_LINE)
    yield f".SH SYNOPSIS\n.B {ROOT}\nCOMMAND [ARGS]..."
    yield ".SH DESCRIPTION"
    yield from _paragraphs(
        "An agent on each node learns the miss ratio curves of cgroups. A controller chooses an "
        "eviction policy and a memory limit for each of them. These commands ask the controller, "
        "run the parts, and compute curves of traces."
    )
    for task, group in TASKS.items():
        yield f'.SS "{escaped(task)}"'
        yield from _listed([(one.name, one.help) for one in group])
    yield ".SH EXIT STATUS"
    yield from _listed(EXIT_STATUS)
    pages = ", ".join(f"\n.BR {ROOT}\\-{one.name} (1)" for one in entries())
    yield f".SH SEE ALSO{pages}"


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def _pages_of(command: Any, name: str, line: str) -> Iterator[tuple[str, str]]:
    """Yield the page of a command, and those of its subcommands."""
    context = command.context_class(command, info_name=name)
    yield name.replace(" ", "-"), "\n".join(_page(command, context, name, line))
    if isinstance(command, TyperGroup):
        for below in command.list_commands(context):
            found: Any = command.get_command(context, below)
            yield from _pages_of(found, f"{name} {below}", _first_sentence(found.help))


def pages() -> Iterator[tuple[str, str]]:
    """Yield name and text of each page; the name has no section."""
    yield ROOT, "\n".join(_root())
    for entry in entries():
        name = f"{ROOT} {entry.name}"
        if entry.is_passed_on:
            yield name.replace(" ", "-"), "\n".join(_passed_on(entry))
        else:
            yield from _pages_of(entry.load(), name, entry.help)


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where man1/ is made, like ~/.local/share/man.")
    ],
) -> None:
    """Write a manual page of every command to DIR/man1.

    `man cachepilot` finds them where DIR is in the manual's path: ~/.local/share/man for one user,
    /usr/local/share/man for all.
    """
    target = folder / "man1"
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is not a folder")
    target.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, text in pages():
        (target / f"{name}.1").write_text(text + "\n", "utf-8")
        count += 1
    print(f"{count} pages written to {target}")
