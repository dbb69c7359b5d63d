# SPDX-License-Identifier: Apache-2.0
"""What each policy saved since it began to gain on the one in force, and how that scatters.

A cumulative sum shows a change that began when the sum was last at its minimum (Page 1954). From
each interval a reference value is subtracted: a saving too small to be worth a change. Otherwise, a
policy that is barely ahead for hours would later have to gain for hours until its mean shows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.sense.counterfactuals import Floats
from cachepilot.tables import Table, stacked, unstack

WORTH, WHITE, UNSEEN, SECONDS, ACCESSES = -5, -4, -3, -2, -1
"""Columns of `Climb.values` after those of the groups, counted from the end."""
BESIDE = 5


@dataclass(slots=True, eq=False)
class Climb(Table):
    """The sums of one tenant.

    `values` has a row per policy. Its columns are the saved pages by group of pages, then the part
    of them too small to be worth a change (`WORTH`), the sum of the variances of single intervals
    (`WHITE`), the part of these that is of unsampled pages (`UNSEEN`), and seconds and accesses
    since the policy began to gain. `looked` counts all intervals of the regime.
    """

    looked: int = 0

    def restart(self, policies: int, groups: int) -> None:
        """Start all sums from 0, as another policy is in force or others are compared."""
        self.values = np.zeros((policies, groups + BESIDE), np.float32)


@dataclass
class Climbs:
    """The sums of many tenants with equally many policies and groups, tenants on the first axis."""

    values: Floats
    looked: Floats

    @classmethod
    def of(cls, climbs: Sequence[Climb]) -> "Climbs":
        """A copy of the sums of many tenants; `store` writes it back."""
        return cls(stacked(climbs), np.array([float(one.looked) for one in climbs]))

    def store(self, climbs: Sequence[Climb]) -> None:
        """Write each tenant's sums back."""
        unstack(self.values, climbs, np.float32)
        for one, looked in zip(climbs, self.looked.tolist(), strict=True):
            one.looked = int(looked)

    @property
    def saved(self) -> Floats:
        """Saved pages, shape (tenants, policies, groups)."""
        return self.values[:, :, :-BESIDE]

    @property
    def seconds(self) -> Floats:
        """Seconds since each policy began to gain, shape (tenants, policies)."""
        return self.values[:, :, SECONDS]

    @property
    def accesses(self) -> Floats:
        """Accesses since each policy began to gain, shape (tenants, policies)."""
        return self.values[:, :, ACCESSES]

    def take(
        self, saved: Floats, accesses: Floats, rate: Floats, elapsed_s: float, worth: Floats
    ) -> None:
        """Take in an interval: pages `saved` by tenant, policy and group; accesses by tenant.

        `rate` is the sampled share of pages by tenant. `worth`, shape (tenants, policies), is the
        saving too small for a change. Where the sum does not exceed that, it starts again.
        """
        values = self.values
        values[:, :, :-BESIDE] += saved
        values[:, :, WORTH] += worth
        white = saved.shape[2] * saved.var(axis=2, ddof=1)
        values[:, :, WHITE] += white
        values[:, :, UNSEEN] += white * np.maximum(0.0, 1.0 - rate)[:, None]
        values[:, :, SECONDS] += elapsed_s
        values[:, :, ACCESSES] += accesses[:, None]
        # Negated so that NaN restarts, too.
        values[~(self.saved.sum(axis=2) > values[:, :, WORTH])] = 0.0
        self.looked = self.looked + 1

    def variances(self) -> Floats:
        """Variances of total savings. Groups are independent, however long their errors last."""
        return np.asarray(self.saved.shape[2] * self.saved.var(axis=2, ddof=1))

    def unseen(self) -> Floats:
        """The share of unsampled pages when the errors were made, shape (tenants, policies)."""
        return np.asarray(self.values[:, :, UNSEEN] / np.maximum(self.values[:, :, WHITE], 1e-300))

    def looks(self, variances: Floats) -> Floats:
        """The number of independent errors in the regime, shape (tenants, policies).

        The variance of a sum, divided by that of as many independent intervals, is the number of
        intervals that an error lasts. Of an error that stays the same there is only one, however
        many intervals show it.
        """
        lasts = variances / np.maximum(self.values[:, :, WHITE], 1e-300)
        looked = self.looked[:, None]
        found = looked / np.maximum(lasts, 1.0)
        return np.asarray(np.minimum(np.maximum(found, 1.0), np.maximum(looked, 1.0)))
