# SPDX-License-Identifier: Apache-2.0
"""Numbers of the policies of a tenant in one array, as the state of a tenant holds them.

As lists of Python's numbers they take four times the memory, and converting them takes longer than
all that is computed of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic_core import CoreSchema, core_schema

from cachepilot.sense.counterfactuals import Floats

FLOATS_SCHEMA = core_schema.list_schema(core_schema.float_schema())
ROWS_SCHEMA = core_schema.list_schema(FLOATS_SCHEMA)


class Table:
    """An array of two dimensions, `values`."""

    __slots__ = ("values",)

    values: Floats

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.values.tolist()})"


def stacked(tables: Sequence[Table]) -> Floats:
    """A copy of tables of one shape, with an axis of tables first."""
    flat = np.concatenate([one.values for one in tables])
    return flat.reshape(len(tables), *tables[0].values.shape)


def unstack(values: Floats, tables: Sequence[Table]) -> None:
    """Gives each table its part of what `stacked` has the shape of.

    Each gets a copy: a view would hold the memory of all for as long as one of them is kept.
    """
    for table, one in zip(tables, values, strict=True):
        table.values = one.copy()


class PagesTable(Table):
    """Pages by policy and group of pages; compared by its values, lists of lists in JSON."""

    __slots__ = ()

    def __init__(self, values: Floats | Sequence[Sequence[float]] = ()) -> None:
        """Raises ValueError for rows of unlike length."""
        found = np.array(values, dtype=np.float64)
        self.values = found if found.size else found.reshape(len(found), 0)

    @classmethod
    def zeros(cls, policies: int, groups: int) -> "PagesTable":
        """Of nothing yet."""
        return cls(np.zeros((policies, groups)))

    def __eq__(self, other: object) -> bool:
        told = other.values.tolist() if isinstance(other, PagesTable) else other
        return bool(self.values.tolist() == told)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls,
            ROWS_SCHEMA,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda table: table.values.tolist(), return_schema=ROWS_SCHEMA
            ),
        )


def named_lists_schema(kind: type, lists: dict[str, CoreSchema]) -> CoreSchema:
    """Of a kind that is made of its lists by their names, which are what JSON has of it."""
    fields = {
        name: core_schema.typed_dict_field(one, required=False) for name, one in lists.items()
    }
    told = core_schema.typed_dict_schema(fields)
    return core_schema.no_info_after_validator_function(
        lambda found: kind(**found),
        told,
        serialization=core_schema.plain_serializer_function_ser_schema(
            lambda one: {name: getattr(one, name) for name in lists}, return_schema=told
        ),
    )
