# SPDX-License-Identifier: Apache-2.0
"""Tables of numbers, such as those of a tenant's policies, as part of a state that is stored.

Lists of Python numbers take four times the memory, and converting them takes longer than all
computations with them. Sums of pages are kept in single precision: its rounding errors are far
below the error of a sample. Everything is computed in double precision.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import GetPydanticSchema
from pydantic_core import core_schema

Floats = NDArray[np.float64]
_ROWS = core_schema.list_schema(core_schema.list_schema(core_schema.float_schema()))
_SCHEMA = core_schema.no_info_after_validator_function(
    lambda rows: np.array(rows, dtype=np.float64).reshape(len(rows), -1 if rows else 0),
    _ROWS,
    serialization=core_schema.plain_serializer_function_ser_schema(
        lambda values: values.tolist(), return_schema=_ROWS
    ),
)


@dataclass(slots=True, eq=False)
class Table:
    """An array of two dimensions, serialized to JSON as lists of lists."""

    values: Annotated[Floats, GetPydanticSchema(lambda *_: _SCHEMA)] = field(
        default_factory=lambda: np.zeros((0, 0))
    )

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and all(
            np.array_equal(getattr(self, one.name), getattr(other, one.name))
            for one in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]


def stacked(tables: Sequence[Table]) -> Floats:
    """A copy of tables of one shape in double precision, stacked on a new first axis."""
    flat = np.concatenate([one.values for one in tables], dtype=np.float64)
    return flat.reshape(len(tables), *tables[0].values.shape)


def unstack(values: Floats, tables: Sequence[Table], kept: DTypeLike = np.float64) -> None:
    """Assign each table its part of `values`, which has the shape that `stacked` returns.

    Each table gets a copy with elements of type `kept`. A view would keep the memory of all tables
    alive as long as one lives.
    """
    for table, one in zip(tables, values, strict=True):
        table.values = one.astype(kept)
