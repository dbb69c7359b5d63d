# SPDX-License-Identifier: Apache-2.0
"""Measures what a change reads beyond the default before it gains, and the cost of an early stop.

A change is undone as soon as it has read more than the default by a certain share of the page
cache, its stop.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from experiments.harvest import unseen
from experiments.harvest.loads import Load
from experiments.harvest.pinned import KERNEL_DEFAULT, may_choose
from experiments.shared.rows import Row
from experiments.shared.side_by_side import side_by_side
from numpy.typing import NDArray

from cachepilot import _models

STOPS_PCT = (2, 5, 10, 20)
"""Percentages of the page cache."""
REQUESTS_MAX = 1_200_000
TURNOVERS = 4
"""A change is followed for this many turnovers, and so is its rollback. A turnover is as many
misses of the default as the page cache has pages.
"""
LOOKS = 100
"""Number of looks in a turnover."""
GAINS = 0.02
"""Share of the default's misses. A change that saves less neither gains nor loses."""

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Change:
    """One change from the default. `excess` is what it read beyond the default, at each look.

    `excess` and `rollbacks` are shares of the page cache. `rollbacks` has, for each stop, the most
    that was read beyond the default after the change was undone. `saved` is a share of the
    default's misses. `own` is the share of the page cache that the policy would keep at the time of
    the change, had it been in force throughout, and that the default does not have.
    """

    excess: NDArray[np.float64]
    saved: float
    own: float
    rollbacks: dict[int, float]


class _Default:
    """The default alone on a load, and the point at which changes from it begin."""

    def __init__(self, load: Load) -> None:
        requests = min(load.keys.size, REQUESTS_MAX)
        self.load, self.begin = load, requests // 3
        cache = self._before(KERNEL_DEFAULT)
        self.held = cache.resident()
        missed = ~cache.run(load.chunk(self.begin, requests - self.begin))
        self.missed: Counts = np.cumsum(missed)
        self.look = max(16, self._look())

    def _before(self, policy: str) -> _models.Cache:
        """Return the cache of a policy that was in force until changes begin."""
        cache = _models.Cache(policy, self.load.size_pages)
        cache.run(self.load.chunk(0, self.begin))
        return cache

    def own(self, policy: str) -> float:
        """Return the share of the page cache that a policy would have and the default does not."""
        kept = self._before(policy).resident()
        return np.setdiff1d(kept, self.held).size / self.load.size_pages

    def _look(self) -> int:
        """Return the number of requests per look: `LOOKS` looks make a turnover."""
        return int(self.load.size_pages * self.missed.size / LOOKS / max(1, self.missed[-1]))

    def after(self, policies: Sequence[tuple[str, int]]) -> Counts:
        """Return the pages read beyond the default, cumulated from the last change on.

        `policies` are the changes, each with the number of requests before it takes effect. The
        last one is followed for `TURNOVERS`.
        """
        cache = _models.Cache(KERNEL_DEFAULT, self.load.size_pages)
        at = 0
        for policy, begin in policies:
            cache.run(self.load.chunk(at, begin - at))
            cache.swap(policy)
            at = begin
        first = at - self.begin
        last = min(self.missed.size, first + TURNOVERS * LOOKS * self.look)
        missed = np.cumsum(~cache.run(self.load.chunk(at, last - first)))
        before = self.missed[first - 1] if first else 0
        return np.asarray(missed - (self.missed[first:last] - before))


def _change(default: _Default, policy: str) -> Change:
    size, look = default.load.size_pages, default.look
    excess = default.after([(policy, default.begin)])[look - 1 :: look] / size
    rollbacks = {}
    for stop in STOPS_PCT:
        above = np.flatnonzero(excess > stop / 100)
        if above.size:
            end = default.begin + int(above[0] + 1) * look
            # The cost of a rollback that is followed for less than a turnover is not known.
            if end - default.begin + LOOKS * look <= default.missed.size:
                again = default.after([(policy, default.begin), (KERNEL_DEFAULT, end)])
                rollbacks[stop] = max(0.0, float(again.max())) / size
    missed = float(default.missed[excess.size * look - 1])
    saved = -float(excess[-1]) * size / max(1.0, missed)
    return Change(excess, saved, default.own(policy), rollbacks)


def changes(load: Load) -> list[Change]:
    """Return the change to each policy that the autopilot may choose.

    A load that is too short gives none.
    """
    default = _Default(load)
    if default.missed.size < LOOKS * default.look:
        return []
    return [_change(default, policy) for policy in may_choose()]


def _loads(seed: int, shares_pct: Sequence[int]) -> Iterator[Load]:
    for share_pct in shares_pct:
        yield from unseen.loads(seed, share_pct / 100)


def rows(by_seed: Sequence[Sequence[Change]]) -> list[Row]:
    """Return `autopilot.harvest.stops.*`, with one value per seed."""
    own = [100 * float(np.median([one.own for one in some])) for some in by_seed]
    about = f"page cache, median of {sum(map(len, by_seed))} changes"
    found = [Row.of_runs("autopilot.harvest.stops.own_pct", own, "%", reference=about)]
    for stop in STOPS_PCT:
        gaining = [[one for one in some if one.saved >= GAINS] for some in by_seed]
        stopped = [
            100 * sum(one.excess.max() > stop / 100 for one in some) / len(some)
            for some in gaining
            if some
        ]
        about = f"{sum(map(len, gaining))} changes that save 2% of the default's misses or more"
        metric = f"autopilot.harvest.stops.gaining_pct.{stop}"
        found.append(Row.of_runs(metric, stopped, "%", reference=about))
        rollbacks = [
            [one.rollbacks[stop] for one in some if stop in one.rollbacks] for some in by_seed
        ]
        rollbacks = [some for some in rollbacks if some]
        about = f"page cache, {sum(map(len, rollbacks))} changes that were undone"
        for name, share in (("median", 0.5), ("most", 0.9)):
            values = [100 * float(np.quantile(some, share)) for some in rollbacks]
            metric = f"autopilot.harvest.stops.rollback_pct.{stop}.{name}"
            found.append(Row.of_runs(metric, values, "%", reference=about))
    return found


def measure(shares_pct: Sequence[int], seeds: Sequence[int]) -> list[Row]:
    """Measure the workloads of every seed at every share of memory."""
    by_seed = []
    for seed in seeds:
        every = side_by_side(changes, _loads(seed, shares_pct))
        by_seed.append([one for found in every for one in found])
    return rows(by_seed)
