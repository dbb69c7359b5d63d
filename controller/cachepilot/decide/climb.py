# SPDX-License-Identifier: Apache-2.0
"""What each policy saved since it began to gain on the one in force, and how that scatters.

A cumulative sum was last at its least when the change began that it shows (Page 1954).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cachepilot.model.pages_table import PagesTable
from cachepilot.sense.counterfactuals import Floats


@dataclass
class Climb:
    """Of one tenant.

    `saved` are pages by policy and group of pages, `white` the variances of single intervals summed
    up, `seconds` and `accesses` those since. `looked` counts all intervals of the regime.
    """

    saved: PagesTable = field(default_factory=PagesTable)
    white: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    accesses: list[float] = field(default_factory=list)
    looked: int = 0

    def restart(self, policies: int, groups: int) -> None:
        """Another policy is in force, or the workload changed."""
        self.saved = PagesTable.zeros(policies, groups)
        self.white, self.seconds, self.accesses = ([0.0] * policies for _ in range(3))


@dataclass
class Climbs:
    """Of many tenants with as many policies and groups: the same with an axis of tenants first."""

    saved: Floats
    white: Floats
    seconds: Floats
    accesses: Floats
    looked: Floats

    @classmethod
    def of(cls, climbs: Sequence[Climb]) -> "Climbs":
        """A copy; `store` writes it back."""
        return cls(
            PagesTable.stack([one.saved for one in climbs]),
            np.array([one.white for one in climbs]),
            np.array([one.seconds for one in climbs]),
            np.array([one.accesses for one in climbs]),
            np.array([float(one.looked) for one in climbs]),
        )

    def store(self, climbs: Sequence[Climb]) -> None:
        """Makes them what these are."""
        PagesTable.unstack(self.saved, [one.saved for one in climbs])
        rows = zip(
            climbs, self.white.tolist(), self.seconds.tolist(), self.accesses.tolist(),
            self.looked.tolist(), strict=True,
        )  # fmt: skip
        for one, white, seconds, accesses, looked in rows:
            one.white, one.seconds, one.accesses = white, seconds, accesses
            one.looked = int(looked)

    def take(self, saved: Floats, accesses: Floats, elapsed_s: float) -> None:
        """An interval: pages saved by tenant, policy and group, and accesses by tenant."""
        total = self.saved + saved
        rises = total.sum(axis=2) > 0
        white = self.white + saved.shape[2] * saved.var(axis=2, ddof=1)
        self.saved = np.where(rises[:, :, None], total, 0.0)
        self.white = np.where(rises, white, 0.0)
        self.seconds = np.where(rises, self.seconds + elapsed_s, 0.0)
        self.accesses = np.where(rises, self.accesses + accesses[:, None], 0.0)
        self.looked = self.looked + 1

    def variances(self) -> Floats:
        """Of what was saved in all groups, which are independent however long their errors last."""
        return np.asarray(self.saved.shape[2] * self.saved.var(axis=2, ddof=1))

    def looks(self, variances: Floats) -> Floats:
        """How many independent errors were seen in the regime, shape (tenants, policies).

        The variance of a sum over that of as many independent intervals is the time that an error
        lasts: of errors that stay the same there is but one, however often it is looked at.
        """
        lasts = variances / np.maximum(self.white, 1e-300)
        looked = self.looked[:, None]
        found = looked / np.maximum(lasts, 1.0)
        return np.asarray(np.minimum(np.maximum(found, 1.0), np.maximum(looked, 1.0)))
