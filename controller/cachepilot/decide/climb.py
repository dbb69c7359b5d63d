# SPDX-License-Identifier: Apache-2.0
"""What each policy saved since it began to gain on the one in force, and how that scatters.

A cumulative sum was last at its least when the change began that it shows (Page 1954).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic_core import CoreSchema, core_schema

from cachepilot.model.pages_table import (
    FLOATS_SCHEMA,
    ROWS_SCHEMA,
    Table,
    named_lists_schema,
    stacked,
    unstack,
)
from cachepilot.sense.counterfactuals import Floats

WHITE, SECONDS, ACCESSES = -3, -2, -1
"""Columns of `Climb.values` behind those of the groups."""
BESIDE = 3


class Climb(Table):
    """Of one tenant.

    `saved` are pages by policy and group of pages, `white` the variances of single intervals summed
    up, `seconds` and `accesses` those since. `looked` counts all intervals of the regime. `values`
    has a row per policy: a column per group, then the others.
    """

    __slots__ = ("looked",)

    def __init__(
        self,
        saved: Sequence[Sequence[float]] = (),
        white: Sequence[float] = (),
        seconds: Sequence[float] = (),
        accesses: Sequence[float] = (),
        looked: int = 0,
    ) -> None:
        """Raises ValueError for rows of unlike length."""
        beside = np.array((white, seconds, accesses), dtype=np.float64).T
        pages = np.array(saved, dtype=np.float64).reshape(len(beside), -1 if len(beside) else 0)
        self.values, self.looked = np.hstack((pages, beside)), looked

    @property
    def saved(self) -> list[list[float]]:
        """Pages by policy and group."""
        found: list[list[float]] = self.values[:, :-BESIDE].tolist()
        return found

    @property
    def white(self) -> list[float]:
        """Variances of single intervals, summed up by policy."""
        return self._column(WHITE)

    @property
    def seconds(self) -> list[float]:
        """Since when each policy gains."""
        return self._column(SECONDS)

    @property
    def accesses(self) -> list[float]:
        """Of the time in which each policy gained."""
        return self._column(ACCESSES)

    def _column(self, at: int) -> list[float]:
        found: list[float] = self.values[:, at].tolist()
        return found

    def restart(self, policies: int, groups: int) -> None:
        """Another policy is in force, or the workload changed."""
        self.values = np.zeros((policies, groups + BESIDE))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Climb):
            return NotImplemented
        return self.looked == other.looked and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        lists: dict[str, CoreSchema] = {"saved": ROWS_SCHEMA}
        lists |= dict.fromkeys(("white", "seconds", "accesses"), FLOATS_SCHEMA)
        return named_lists_schema(cls, {**lists, "looked": core_schema.int_schema()})


@dataclass
class Climbs:
    """Of many tenants with as many policies and groups: the same with an axis of tenants first."""

    values: Floats
    looked: Floats

    @classmethod
    def of(cls, climbs: Sequence[Climb]) -> "Climbs":
        """A copy; `store` writes it back."""
        return cls(stacked(climbs), np.array([float(one.looked) for one in climbs]))

    def store(self, climbs: Sequence[Climb]) -> None:
        """Makes them what these are."""
        unstack(self.values, climbs)
        for one, looked in zip(climbs, self.looked.tolist(), strict=True):
            one.looked = int(looked)

    @property
    def saved(self) -> Floats:
        """Pages by tenant, policy and group."""
        return self.values[:, :, :-BESIDE]

    @property
    def seconds(self) -> Floats:
        """Since when policies gain, by tenant and policy."""
        return self.values[:, :, SECONDS]

    @property
    def accesses(self) -> Floats:
        """Of that time, by tenant and policy."""
        return self.values[:, :, ACCESSES]

    def take(self, saved: Floats, accesses: Floats, elapsed_s: float) -> None:
        """An interval: pages saved by tenant, policy and group, and accesses by tenant."""
        values = self.values
        values[:, :, :-BESIDE] += saved
        values[:, :, WHITE] += saved.shape[2] * saved.var(axis=2, ddof=1)
        values[:, :, SECONDS] += elapsed_s
        values[:, :, ACCESSES] += accesses[:, None]
        # Written so that what is no number restarts, too.
        values[~(self.saved.sum(axis=2) > 0)] = 0.0
        self.looked = self.looked + 1

    def variances(self) -> Floats:
        """Of what was saved in all groups, which are independent however long their errors last."""
        return np.asarray(self.saved.shape[2] * self.saved.var(axis=2, ddof=1))

    def looks(self, variances: Floats) -> Floats:
        """How many independent errors were seen in the regime, shape (tenants, policies).

        The variance of a sum over that of as many independent intervals is the time that an error
        lasts: of errors that stay the same there is but one, however often it is looked at.
        """
        lasts = variances / np.maximum(self.values[:, :, WHITE], 1e-300)
        looked = self.looked[:, None]
        found = looked / np.maximum(lasts, 1.0)
        return np.asarray(np.minimum(np.maximum(found, 1.0), np.maximum(looked, 1.0)))
