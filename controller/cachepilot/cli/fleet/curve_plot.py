# SPDX-License-Identifier: Apache-2.0
"""Miss ratio curves in a terminal: Braille dots, with names at the right end of the lines."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.text import Text

from cachepilot.sizes import human_bytes

STYLES = ("bold green", "red", "blue", "magenta", "cyan", "yellow")
DOTS_ACROSS, DOTS_DOWN = 2, 4
BRAILLE = 0x2800
# The bit of a Braille pattern for the dot at (row, column): Unicode, section 21.1.
BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
AXIS_COLUMNS = 6
HERE = "●"


@dataclass(frozen=True)
class Line:
    """A curve: its name, and a miss ratio from 0 to 1 for each size."""

    name: str
    miss_ratio: Sequence[float]


class _Canvas:
    """Cells of Braille dots. A cell has the style of the first line drawn through it."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._bits: npt.NDArray[np.int64] = np.zeros((rows, columns), np.int64)
        self._styles: dict[tuple[int, int], str] = {}
        self._marks: dict[tuple[int, int], str] = {}

    def draw(self, heights: npt.NDArray[np.float64], style: str) -> None:
        """Draw a line through `heights`, from 0 (bottom) to 1 (top), one per column of dots."""
        dots = self.rows * DOTS_DOWN
        downs = np.clip(np.rint((1 - heights) * (dots - 1)), 0, dots - 1).astype(int)
        last = downs[0]
        for across, down in enumerate(downs):
            for dot in range(min(last + np.sign(down - last), down), max(last, down) + 1):
                row, column = dot // DOTS_DOWN, across // DOTS_ACROSS
                self._bits[row, column] |= BITS[dot % DOTS_DOWN][across % DOTS_ACROSS]
                self._styles.setdefault((row, column), style)
            last = down

    def mark(self, across: float, height: float) -> None:
        """Place the mark at shares of the width and the height."""
        row = round((1 - height) * (self.rows - 1))
        self._marks[row, round(across * (self.columns - 1))] = HERE

    def line(self, row: int) -> Text:
        """Return one row of cells."""
        text = Text()
        for column in range(self.columns):
            mark = self._marks.get((row, column))
            bits = int(self._bits[row, column])
            cell = mark or (chr(BRAILLE + bits) if bits else " ")
            text.append(cell, "bold" if mark else self._styles.get((row, column), ""))
        return text


def _label_rows(ends: Sequence[float], rows: int) -> dict[int, int]:
    """Assign each line's name the free row nearest to the height where the line ends."""
    taken: dict[int, int] = {}
    for index in sorted(range(len(ends)), key=lambda index: -ends[index]):
        wanted = round((1 - ends[index]) * (rows - 1))
        free = [row for row in range(rows) if row not in taken]
        if free:
            taken[min(free, key=lambda row: (abs(row - wanted), -row))] = index
    return taken


def _size_axis(sizes_bytes: Sequence[int], columns: int) -> Text:
    names = [human_bytes(size) for size in (sizes_bytes[0], sizes_bytes[-1])]
    middle = human_bytes((sizes_bytes[0] + sizes_bytes[-1]) / 2)
    gap = columns - len(names[0]) - len(names[1])
    return Text(" " * AXIS_COLUMNS + names[0] + middle.center(gap) + names[1])


def curve_plot(
    sizes_bytes: Sequence[int],
    lines: Sequence[Line],
    here: tuple[int, float] | None,
    width: int,
    rows: int = 14,
) -> Text:
    """Plot miss ratio over size, both linear; `here`, (bytes, miss ratio), is marked.

    The first line has the first style and lies on top. `sizes_bytes` must increase.
    """
    names = max(len(line.name) for line in lines)
    columns = max(width - AXIS_COLUMNS - names - 2, 10)
    first, last = sizes_bytes[0], sizes_bytes[-1]
    top = max(max(line.miss_ratio) for line in lines) or 1.0
    canvas = _Canvas(columns, rows)
    points = np.linspace(first, last, columns * DOTS_ACROSS)
    for line, style in zip(lines, STYLES, strict=False):
        canvas.draw(np.interp(points, sizes_bytes, line.miss_ratio) / top, style)
    if here is not None and last > first:
        across = (here[0] - first) / (last - first)
        canvas.mark(float(np.clip(across, 0, 1)), float(np.clip(here[1] / top, 0, 1)))
    labels = _label_rows([line.miss_ratio[-1] / top for line in lines], rows)
    plot = Text()
    for row in range(rows):
        is_tick = row in (0, rows // 2, rows - 1)
        value = top * (1 - row / (rows - 1))
        plot.append(f"{value:{AXIS_COLUMNS - 1}.2f}┤" if is_tick else " " * 5 + "│")
        plot.append_text(canvas.line(row))
        if row in labels:
            plot.append(f" {lines[labels[row]].name}", STYLES[labels[row]])
        plot.append("\n")
    plot.append(" " * 5 + "└" + "─" * columns + "\n")
    plot.append_text(_size_axis(sizes_bytes, columns))
    return plot
