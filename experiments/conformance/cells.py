# SPDX-License-Identifier: Apache-2.0
"""Cells of a table: one policy on one stream each, of whichever kind of policy."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar


class Cell(Protocol):
    """A dataclass that says which policy and which stream."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def policy(self) -> str:
        """Its name."""

    @property
    def stream(self) -> str:
        """Its name."""


AnyCell = TypeVar("AnyCell", bound=Cell)


def merge_cells(path: Path, cells: Sequence[AnyCell], kind: type[AnyCell]) -> list[AnyCell]:
    """Puts `cells` among those of earlier runs, replacing those of the same policy and stream."""
    old = json.loads(path.read_text("utf-8")) if path.is_file() else []
    merged = {(row["policy"], row["stream"]): kind(**row) for row in old}
    merged |= {(cell.policy, cell.stream): cell for cell in cells}
    ordered = [merged[key] for key in sorted(merged)]
    lines = ",\n".join(json.dumps(asdict(cell)) for cell in ordered)
    path.write_text(f"[\n{lines}\n]\n", "utf-8")
    return ordered


def complete(
    cells: Sequence[AnyCell], streams: Sequence[str]
) -> Iterator[tuple[str, list[AnyCell]]]:
    """Each policy that played every stream, with its cells of these."""
    for policy in dict.fromkeys(cell.policy for cell in cells):
        found = [cell for cell in cells if cell.policy == policy and cell.stream in streams]
        if len(found) == len(streams):
            yield policy, found
