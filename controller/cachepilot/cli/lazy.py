# SPDX-License-Identifier: Apache-2.0
"""The root of the command line: commands are imported when they are called, not before."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from typer.core import TyperGroup

from cachepilot.cli.commands import TASKS, Entry, entries

NAME_COLUMNS = 13
VARIABLE = "_CACHEPILOT_COMPLETE"
"""Set by a shell that asks for completions."""


class _Commands(Mapping[str, Any]):
    """Commands by name; looking one up imports it."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {one.name: one for one in entries()}
        self._load = cache(Entry.load)

    def __getitem__(self, name: str) -> Any:
        return self._load(self._entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class LazyGroup(TyperGroup):
    """Commands of `commands.TASKS`, listed by task."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": None})
        self.commands = _Commands()  # type: ignore[assignment]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A section of the help for each task; nothing is imported for it."""
        for task, group in TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(one.name.ljust(NAME_COLUMNS), one.help) for one in group])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Names of commands and the group's own options; nothing is imported for it."""
        from typer._click.shell_completion import CompletionItem  # noqa: PLC0415

        found = [
            CompletionItem(one.name, help=one.help)
            for one in entries()
            if one.name.startswith(incomplete)
        ]
        # Past TyperGroup, which would import every command for the same names.
        return found + super(TyperGroup, self).shell_complete(ctx, incomplete)
