# SPDX-License-Identifier: Apache-2.0
"""Pages by policy and group of pages, as the state of a tenant holds them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic_core import CoreSchema, core_schema

from cachepilot.sense.counterfactuals import Floats


class PagesTable:
    """An array of shape (policies, groups) that is compared by its values; lists of lists in JSON.

    As lists of Python's numbers it takes four times the memory, and converting it takes longer than
    all that is computed of it.
    """

    __slots__ = ("values",)

    def __init__(self, values: Floats | Sequence[Sequence[float]] = ()) -> None:
        """Raises ValueError for rows of unlike length."""
        found = np.array(values, dtype=np.float64)
        self.values: Floats = found if found.size else found.reshape(len(found), 0)

    @classmethod
    def zeros(cls, policies: int, groups: int) -> "PagesTable":
        """Of nothing yet."""
        return cls(np.zeros((policies, groups)))

    @staticmethod
    def stack(tables: Sequence["PagesTable"]) -> Floats:
        """A copy of tables of one shape, shape (tables, policies, groups)."""
        flat = np.concatenate([one.values for one in tables])
        return flat.reshape(len(tables), *tables[0].values.shape)

    @staticmethod
    def unstack(values: Floats, tables: Sequence["PagesTable"]) -> None:
        """Gives each table its part of what `stack` has the shape of.

        Each gets a copy: a view would hold the memory of all for as long as one of them is kept.
        """
        for table, one in zip(tables, values, strict=True):
            table.values = one.copy()

    def __eq__(self, other: object) -> bool:
        told = other.values.tolist() if isinstance(other, PagesTable) else other
        return bool(self.values.tolist() == told)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PagesTable({self.values.tolist()})"

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        rows = core_schema.list_schema(core_schema.list_schema(core_schema.float_schema()))
        return core_schema.no_info_after_validator_function(
            cls,
            rows,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda table: table.values.tolist(), return_schema=rows
            ),
        )
