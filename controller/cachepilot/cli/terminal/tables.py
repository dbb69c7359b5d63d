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
"""Styles for the verdict of an SLO."""
SPARKS = "▁▂▃▄▅▆▇█"


class _Console(Console):
    """A console that leaves a closed pipe to the entry point, and escapes control characters."""

    def on_broken_pipe(self) -> None:
        """Raise; the base class would exit the process with status 1."""
        raise BrokenPipeError

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render like the base class, but escape characters in names that a terminal would obey."""
        for one in super().render(renderable, options):
            is_plain = one.control or one.text.isprintable() or one.text == "\n"
            yield one if is_plain else Segment(_harmless(one.text), one.style)


def _harmless(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def console() -> Console:
    """Return a console on stdout; into a pipe it does not fold tables at 80 columns.

    With `-o wide` no column is omitted, however wide the terminal is.
    """
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    width = ALL_COLUMNS if form() is Form.WIDE else PIPE_COLUMNS if piped else None
    return _Console(file=sys.stdout, markup=False, highlight=False, width=width)


def new_table(title: str | None = None) -> Table:
    """Return an empty table in the style of this program."""
    return Table(
        box=box.SIMPLE_HEAD,
        title=None if title is None else Text(title),
        title_justify="left",
        title_style="bold",
        pad_edge=False,
    )


def add_columns(table: Table, names: Sequence[str], justify: JustifyMethod = "right") -> None:
    """Append columns that do not wrap, aligned to the right by default."""
    for name in names:
        table.add_column(name, justify=justify, no_wrap=True)


def best(text: str, is_best: bool) -> Text:
    """Return `text`, in bold if it is the best of its column."""
    return Text(text, style="bold" if is_best else "")


class Simulated(Protocol):
    """The result of one policy in a simulation."""

    @property
    def policy(self) -> str:
        """The policy's name."""

    @property
    def miss_ratio(self) -> float:
        """The miss ratio, 0 to 1."""


Result = TypeVar("Result", bound=Simulated)


def add_ranked(
    table: Table, results: Sequence[Result], cells: Callable[[Result], Sequence[str]]
) -> None:
    """Append a row for each policy in the order of miss ratios, the lowest in bold.

    Name and miss ratio are followed by the result's `cells`, limited to the table's columns.
    """
    least = min(result.miss_ratio for result in results)
    for row in sorted(results, key=lambda result: result.miss_ratio):
        first = (row.policy, f"{row.miss_ratio:.5f}")
        shown: list[str | Text] = [best(text, row.miss_ratio == least) for text in first]
        shown += cells(row)
        table.add_row(*shown[: len(table.columns)])


def sparkline(values: Sequence[float]) -> str:
    """Return values between 0 and 1 as one character each."""
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
    """Print one document in JSON, or the form of `-o`; numbers that are not finite become null.

    Without `indent` the JSON is a single line.
    """
    if form() is Form.YAML:
        import yaml  # noqa: PLC0415

        print(
            yaml.safe_dump(_finite(value), sort_keys=False, explicit_start=indent is None), end=""
        )
        return
    print(json.dumps(_finite(value), indent=indent, allow_nan=False))


def print_notes(notes: Sequence[str]) -> None:
    """Print notes for the reader of stdout on stderr, one line each."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
