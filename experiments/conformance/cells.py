# SPDX-License-Identifier: Apache-2.0
"""Cells of a table: one policy on one stream each, for both kinds of policy."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar


class Cell(Protocol):
    """A dataclass with the names of a policy and a stream."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def policy(self) -> str:
        """Name of the policy."""

    @property
    def stream(self) -> str:
        """Name of the stream."""


AnyCell = TypeVar("AnyCell", bound=Cell)


def merge_cells(path: Path, cells: Sequence[AnyCell], kind: type[AnyCell]) -> list[AnyCell]:
    """Merge `cells` into those of earlier runs, and replace those of the same policy and stream."""
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
    """Yield each policy that played every stream, with its cells of these streams."""
    for policy in dict.fromkeys(cell.policy for cell in cells):
        found = [cell for cell in cells if cell.policy == policy and cell.stream in streams]
        if len(found) == len(streams):
            yield policy, found
