# SPDX-License-Identifier: Apache-2.0
"""The root of the command line, which imports a command only when it is called."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from typer.core import TyperGroup

from cachepilot.cli.commands import TASKS, Entry, entries

NAME_COLUMNS = 13
VARIABLE = "_CACHEPILOT_COMPLETE"
"""The environment variable that a shell sets to request completions."""


class _Commands(Mapping[str, Any]):
    """The commands by name; a look-up imports the command."""

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
    """The commands of `commands.TASKS`, listed by task."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": None})
        self.commands = _Commands()  # type: ignore[assignment]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section of the help for each task without importing any command."""
        for task, group in TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(one.name.ljust(NAME_COLUMNS), one.help) for one in group])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return names of commands and the group's options without importing any command."""
        from typer._click.shell_completion import CompletionItem  # noqa: PLC0415

        found = [
            CompletionItem(one.name, help=one.help)
            for one in entries()
            if one.name.startswith(incomplete)
        ]
        # Skip TyperGroup's method, which would import every command for the same names.
        return found + super(TyperGroup, self).shell_complete(ctx, incomplete)
