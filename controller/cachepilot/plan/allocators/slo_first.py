# SPDX-License-Identifier: Apache-2.0
"""Assure tenants of their SLOs, and of the throughput that they keep, before anything else.

To assure a tenant is to bound its miss ratio from above and its limit from below. The goal of the
allocation then decides among the allocations within these bounds.

The memory above all least limits is spent by priority. Within one priority SLOs come first, the
cheapest first, so that as many as possible are met. Then come tenants without an SLO, which keep a
share of their first throughput. Then come the margins above the SLOs, which compensate for the
variation between intervals. An SLO that cannot be met comes after all SLOs that can be, and after
what tenants of its priority keep: it must not cost other tenants memory that would not meet it.
Everything of a lower priority, except SLOs that can be met, comes after it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.plan.allocators.options import Options
from cachepilot.plan.problem.problem import Problem
from cachepilot.sizes import pages_down, pages_up

FAR = np.iinfo(np.int64).max
PART_STEPS = 10
"""Bisections of a part, if not everything fits.

The part is the share of the keep or of the margin that all tenants get.
"""

Needed = Callable[[float], tuple[FloatArray, IntArray]]
"""A function of a part, as `PART_STEPS` explains.

Returns the greatest miss ratios and the least limits with which some tenants get this part.
"""


@dataclass(frozen=True)
class Assured:
    """The greatest miss ratio and the least limit of each tenant, shape (N,)."""

    miss: FloatArray
    least_bytes: IntArray

    def allows(self, options: Options) -> BoolArray:
        """Mark the options that meet both bounds."""
        enough = options.sizes_bytes >= self.least_bytes[:, None]
        found: BoolArray = options.usable & enough & (options.miss <= self.miss[:, None])
        return found


def assured_sizes(problem: Problem) -> IntArray:
    """The least sizes that meet the SLOs, under the present and under the best other policy.

    Shape (N, 2), or (N, 4) if any SLO has a margin: then followed by the sizes that meet all of the
    margin, too. For a tenant without an SLO it is the size with which it has its keep, or its first
    memory if no size is enough. Whole pages within the bounds of each tenant.
    """
    kept = problem.kept_miss()
    found = _sizes(problem, np.where(problem.has_slo, problem.slo_miss(), kept))
    if not problem.has_margin.any():
        return found
    aimed = _sizes(problem, np.where(problem.has_slo, problem.slo_miss(1.0), kept))
    return np.hstack((found, aimed))


def _sizes(problem: Problem, miss: FloatArray) -> IntArray:
    first = problem.curves.first_size(miss)
    rows = np.arange(problem.present.size)
    other = np.where(problem.allowed, first, np.inf).min(axis=1, initial=np.inf)
    wanted = np.stack((first[rows, problem.present], other), axis=1)
    at_first = problem.is_kept[:, None] & ~np.isfinite(wanted)
    wanted = np.where(at_first, problem.first_bytes[:, None], wanted)
    low, high = problem.low_bytes[:, None], problem.high_bytes[:, None]
    pages = pages_up(np.ceil(np.minimum(wanted, high)).astype(np.int64))
    found: IntArray = np.clip(pages, low, high)
    return found


def with_kept(problem: Problem) -> Problem:
    """Raise the least limits to what tenants keep, for allocators that choose only limits.

    The sizes are those under the policy `given`, and no tenant gets more than its first memory by
    this. If not all of it fits, every tenant gets the same part of the increase.
    """
    rows = np.flatnonzero(problem.is_kept)
    if rows.size == 0:
        return problem
    low, high = problem.low_bytes[rows], problem.high_bytes[rows]
    first = problem.curves.first_size(problem.kept_miss())[rows, problem.given[rows]]
    wanted = np.minimum(first, np.maximum(problem.first_bytes[rows], low))
    pages = pages_up(np.ceil(np.minimum(wanted, high)).astype(np.int64))
    extra = np.clip(pages, low, high) - low
    spare = problem.budget_bytes - int(problem.low_bytes.sum())
    if int(extra.sum()) > spare:
        extra = pages_down((extra * (spare / int(extra.sum()))).astype(np.int64))
    least = problem.low_bytes.copy()
    least[rows] += extra
    return replace(problem, low_bytes=least)


def reach_bytes(problem: Problem) -> IntArray:
    """The limit that each tenant could get in time if all others had their least, shape (N,).

    In time means over several cycles, each within the bound on movement.
    """
    others = int(problem.least_bytes.sum()) - problem.least_bytes
    found: IntArray = np.minimum(problem.most_bytes, problem.budget_bytes - others)
    return found


def _is_above(problem: Problem) -> BoolArray:
    """Mark the tenants whose SLO needs more than this cycle allows, but that can get it in time."""
    first = problem.curves.first_size(problem.slo_miss())
    needed = np.where(problem.usable, first, np.inf).min(axis=1, initial=np.inf)
    found: BoolArray = (needed > problem.high_bytes) & (needed <= reach_bytes(problem))
    return found


def assure(problem: Problem, options: Options) -> Assured:
    """Return what each tenant is assured of. All of it together fits into the budget."""
    found = _Assuring(problem, options)
    slos = problem.has_slo
    waiting: list[tuple[int, IntArray, list[int]]] = []
    for priority in sorted(set(problem.priority[slos].tolist()), reverse=True):
        rows = np.flatnonzero(slos & (problem.priority == priority))
        found.keep(above=waiting[0][0] - 1 if waiting else priority)
        left_out = found.assure_slos(rows)
        if waiting or left_out:
            waiting.append((priority, rows, left_out))
        else:
            found.keep(above=priority - 1)
            found.give_margin(rows)
    for priority, rows, left_out in waiting:
        found.keep(above=priority - 1)
        found.give_margin(np.setdiff1d(rows, left_out))
        for row in left_out:
            found.give_best(row)
    found.keep()
    return found.assured


class _Assuring:
    """What tenants are assured of so far, and the bytes that are left to spend."""

    def __init__(self, problem: Problem, options: Options) -> None:
        self._problem, self._options = problem, options
        self.assured = Assured(np.full(problem.present.size, np.inf), problem.low_bytes.copy())
        self._spare = problem.budget_bytes - int(problem.low_bytes.sum())
        self._to_keep = problem.is_kept

    @cached_property
    def _step_error(self) -> FloatArray:
        return self._problem.step_error(self._options.sizes_bytes)

    @cached_property
    def _is_above(self) -> BoolArray:
        return _is_above(self._problem)

    def _least(self, rows: IntArray, miss: FloatArray, error: FloatArray | float = 0.0) -> IntArray:
        """The least sizes of options that miss at most `miss`, (len(rows),); FAR if there are none.

        The options count as missing more by their `error`, (len(rows), 2K). They are no smaller
        than the limit that the tenant is assured of already.
        """
        allowed = self._from(rows, self.assured.least_bytes[rows])
        most = np.minimum(self._options.miss[rows] + error, 1.0)
        return self._lightest(rows, allowed & (most <= miss[:, None]))

    def _from(self, rows: IntArray, least_bytes: IntArray) -> BoolArray:
        """Mark the usable options of at least these sizes, (len(rows), 2K)."""
        options = self._options
        found: BoolArray = options.usable[rows] & (
            options.sizes_bytes[rows] >= least_bytes[:, None]
        )
        return found

    def _lightest(self, rows: IntArray, some: BoolArray) -> IntArray:
        """The least size of some options of each tenant, (len(rows),); FAR if there are none."""
        sizes = self._options.sizes_bytes[rows]
        found: IntArray = np.where(some, sizes, FAR).min(axis=1, initial=FAR)
        return found

    def assure_slos(self, rows: IntArray) -> list[int]:
        """Assure SLOs of one priority, the cheapest first, and return the rows that are left out.

        An SLO that needs more than this cycle allows, but can be met in time, gets the greatest
        limit of this cycle. Memory that is left then protects SLOs of tenants whose limits fall: it
        raises limits so that the SLOs are met even if curves are wrong by the error of the step.
        """
        if rows.size == 0:
            return []
        problem, assured = self._problem, self.assured
        slo_miss = problem.slo_miss()
        least = self._least(rows, slo_miss[rows])
        is_above = self._is_above[rows] & (least == FAR)
        extra = np.where(is_above, problem.high_bytes[rows], least) - problem.low_bytes[rows]
        surely = self._least(rows, slo_miss[rows], self._step_error[rows])
        left_out, kept = [], []
        for i in np.argsort(extra, kind="stable"):
            row = int(rows[i])
            if extra[i] > self._spare:
                left_out.append(row)
                continue
            self._spare -= int(extra[i])
            if is_above[i]:
                assured.least_bytes[row] = problem.high_bytes[row]
            else:
                assured.miss[row] = slo_miss[row]
                kept.append(i)
        for i in kept:
            more = int(surely[i]) - int(least[i])
            if 0 < more <= self._spare:
                self._spare -= more
                assured.least_bytes[rows[i]] = surely[i]
        return left_out

    def give_best(self, row: int) -> None:
        """Assure a tenant of the least miss ratio that the memory left can buy."""
        options, low = self._options, int(self.assured.least_bytes[row])
        sizes = options.sizes_bytes[row]
        affordable = options.usable[row] & (sizes <= low + self._spare)
        best = float(options.miss[row][affordable].min())
        self.assured.miss[row] = best
        self._spare -= int(sizes[affordable & (options.miss[row] <= best)].min()) - low

    def _kept(self, rows: IntArray, part: float) -> tuple[FloatArray, IntArray]:
        """Greatest miss ratios and least limits with which tenants have `part` of their keep.

        A tenant whose limit falls has it even if its curve is wrong by the error of the step. If no
        limit up to a tenant's first memory and within this cycle's bounds is enough, the tenant
        gets the largest such limit, with no bound on the miss ratio. No tenant gets more than its
        first memory.
        """
        problem = self._problem
        miss = problem.kept_miss(part)[rows]
        least = self._least(rows, miss, self._step_error[rows])
        first = np.clip(problem.first_bytes, problem.low_bytes, problem.high_bytes)[rows]
        most = self._lightest(rows, self._from(rows, first))
        return np.where(least > most, np.inf, miss), np.minimum(least, most)

    def keep(self, above: float = -np.inf) -> None:
        """Assure tenants of their keep, or of a part of it.

        These are the tenants of a priority above `above` that were not assured of it before.
        """
        found = self._to_keep & (self._problem.priority > above)
        self._to_keep = self._to_keep & ~found
        rows = np.flatnonzero(found)
        assured = self._assure_part(rows, self._problem.low_bytes[rows], partial(self._kept, rows))
        if assured is not None:
            self.assured.least_bytes[rows] = assured[1]

    def give_margin(self, rows: IntArray) -> None:
        """Assure tenants of the margins above their SLOs, or of a part of the margins.

        Tenants that are not assured of their SLO get no margin.
        """
        known = np.isfinite(self.assured.miss[rows]) & self._problem.has_margin[rows]
        rows = rows[known]
        spent = self._least(rows, self.assured.miss[rows])
        self._assure_part(rows, spent, partial(self._aimed, rows))

    def _aimed(self, rows: IntArray, part: float) -> tuple[FloatArray, IntArray]:
        """Miss ratios with this part of the margin, and the least limits for them.

        If no option misses so little, it is the least miss ratio of any option.
        """
        allowed = self._from(rows, self.assured.least_bytes[rows])
        best = np.where(allowed, self._options.miss[rows], np.inf).min(axis=1, initial=1.0)
        miss = np.maximum(self._problem.slo_miss(part)[rows], best)
        return miss, self._least(rows, miss)

    def _assure_part(
        self, rows: IntArray, spent: IntArray, needed: Needed
    ) -> tuple[FloatArray, IntArray] | None:
        """Assure all tenants of the same, greatest part that fits; None if no part fits.

        `spent` are the limits that they are assured of already. `needed` returns the miss ratios
        and the limits of a part.
        """
        if rows.size == 0:
            return None
        miss, least = needed(1.0)
        fits, beyond = 0.0, 1.0
        for _ in range(PART_STEPS if int((least - spent).sum()) > self._spare else 0):
            part = (fits + beyond) / 2
            found = needed(part)
            if int((found[1] - spent).sum()) > self._spare:
                beyond = part
            else:
                fits, miss, least = part, *found
        extra = int((least - spent).sum())
        if extra > self._spare:
            return None
        self._spare -= extra
        self.assured.miss[rows] = miss
        return miss, least
