# SPDX-License-Identifier: Apache-2.0
"""Tables and JSON on stdout."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from cachepilot.cli.terminal.output import Form, form
from cachepilot.readable import printable

PIPE_COLUMNS = 160
ALL_COLUMNS = 1000
WIDE_COLUMNS = 110
VERDICT_STYLES = {"met": "green", "missed": "bold red", "stale": "bold red"}
"""Of what is said of an SLO."""
SPARKS = "▁▂▃▄▅▆▇█"


class _Console(Console):
    """One that leaves it to the entry point what becomes of a command whose reader is gone."""

    def on_broken_pipe(self) -> None:
        """The base class would end the process with status 1."""
        raise BrokenPipeError

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As the base class, but a terminal obeys nothing that is in a name."""
        for one in super().render(renderable, options):
            is_plain = one.control or one.text.isprintable() or one.text == "\n"
            yield one if is_plain else Segment(_harmless(one.text), one.style)


def _harmless(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def console() -> Console:
    """A console on stdout; into a pipe it does not fold tables at the usual 80 columns.

    With `-o wide` it leaves no column out, whatever the terminal does with longer lines.
    """
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    width = ALL_COLUMNS if form() is Form.WIDE else PIPE_COLUMNS if piped else None
    return _Console(file=sys.stdout, markup=False, highlight=False, width=width)


def new_table(title: str | None = None) -> Table:
    """An empty table in the one style of this program."""
    return Table(
        box=box.SIMPLE_HEAD,
        title=None if title is None else Text(title),
        title_justify="left",
        title_style="bold",
        pad_edge=False,
    )


def add_columns(table: Table, names: Sequence[str], justify: JustifyMethod = "right") -> None:
    """Appends columns that do not wrap, numbers to the right by default."""
    for name in names:
        table.add_column(name, justify=justify, no_wrap=True)


def best(text: str, is_best: bool) -> Text:
    """`text`, in bold when it is the best of its column."""
    return Text(text, style="bold" if is_best else "")


class Simulated(Protocol):
    """What became of a policy in a simulation."""

    @property
    def policy(self) -> str:
        """Its name."""

    @property
    def miss_ratio(self) -> float:
        """0 to 1."""


Result = TypeVar("Result", bound=Simulated)


def add_ranked(
    table: Table, results: Sequence[Result], cells: Callable[[Result], Sequence[str]]
) -> None:
    """Appends a row for each policy, by its miss ratio, the least in bold.

    Behind its name and its miss ratio come its `cells`, as far as there are columns.
    """
    least = min(result.miss_ratio for result in results)
    for row in sorted(results, key=lambda result: result.miss_ratio):
        first = (row.policy, f"{row.miss_ratio:.5f}")
        shown: list[str | Text] = [best(text, row.miss_ratio == least) for text in first]
        shown += cells(row)
        table.add_row(*shown[: len(table.columns)])


def sparkline(values: Sequence[float]) -> str:
    """Values between 0 and 1 as one character each."""
    top = len(SPARKS) - 1
    return "".join(SPARKS[min(top, max(0, round(value * top)))] for value in values)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def print_json(value: Any, indent: int | None = 2) -> None:
    """One document on stdout, JSON or what `-o` says; a number that is not finite becomes null.

    Without `indent` it is a line of JSON.
    """
    if form() is Form.YAML:
        import yaml  # noqa: PLC0415

        print(
            yaml.safe_dump(_finite(value), sort_keys=False, explicit_start=indent is None), end=""
        )
        return
    print(json.dumps(_finite(value), indent=indent, allow_nan=False))


def print_notes(notes: Sequence[str]) -> None:
    """What a reader of stdout should know beside it, a line each on stderr."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
