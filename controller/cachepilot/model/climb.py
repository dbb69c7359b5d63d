# SPDX-License-Identifier: Apache-2.0
"""What each policy saved since it began to gain on the one in force, and how that scatters.

A cumulative sum was last at its least when the change began that it shows (Page 1954). What is too
little to be worth a change is subtracted (its reference value): else a policy that is ahead by
next to nothing for hours would have to gain for hours until that shows in the mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.model.pages_table import Table, stacked, unstack
from cachepilot.sense.counterfactuals import Floats

WORTH, WHITE, UNSEEN, SECONDS, ACCESSES = -5, -4, -3, -2, -1
"""Columns of `Climb.values` behind those of the groups."""
BESIDE = 5


@dataclass(slots=True, eq=False)
class Climb(Table):
    """Of one tenant.

    `values` has a row per policy: a column per group of the pages saved, then what of them is too
    little to be worth a change (`WORTH`), the variances of single intervals summed up (`WHITE`),
    that part of them which is of pages that are not sampled (`UNSEEN`), and seconds and accesses
    since. `looked` counts all intervals of the regime.
    """

    looked: int = 0

    def restart(self, policies: int, groups: int) -> None:
        """Another policy is in force."""
        self.values = np.zeros((policies, groups + BESIDE))


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

    def take(
        self, saved: Floats, accesses: Floats, rate: Floats, elapsed_s: float, worth: Floats
    ) -> None:
        """An interval: pages saved by tenant, policy and group; accesses, and the share sampled.

        Of what a policy saves `worth`, shape (tenants, policies), is too little for a change.
        """
        values = self.values
        values[:, :, :-BESIDE] += saved
        values[:, :, WORTH] += worth
        white = saved.shape[2] * saved.var(axis=2, ddof=1)
        values[:, :, WHITE] += white
        values[:, :, UNSEEN] += white * np.maximum(0.0, 1.0 - rate)[:, None]
        values[:, :, SECONDS] += elapsed_s
        values[:, :, ACCESSES] += accesses[:, None]
        # Written so that what is no number restarts, too.
        values[~(self.saved.sum(axis=2) > values[:, :, WORTH])] = 0.0
        self.looked = self.looked + 1

    def variances(self) -> Floats:
        """Of what was saved in all groups, which are independent however long their errors last."""
        return np.asarray(self.saved.shape[2] * self.saved.var(axis=2, ddof=1))

    def unseen(self) -> Floats:
        """The share of pages that is not sampled, as it was when errors were made."""
        return np.asarray(self.values[:, :, UNSEEN] / np.maximum(self.values[:, :, WHITE], 1e-300))

    def looks(self, variances: Floats) -> Floats:
        """How many independent errors were seen in the regime, shape (tenants, policies).

        The variance of a sum over that of as many independent intervals is the time that an error
        lasts: of errors that stay the same there is but one, however often it is looked at.
        """
        lasts = variances / np.maximum(self.values[:, :, WHITE], 1e-300)
        looked = self.looked[:, None]
        found = looked / np.maximum(lasts, 1.0)
        return np.asarray(np.minimum(np.maximum(found, 1.0), np.maximum(looked, 1.0)))
