# SPDX-License-Identifier: Apache-2.0
"""What every candidate would have missed in the last interval, from totals of the wire."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cachepilot.errors import InputError
from cachepilot.quick_records import quickly_made
from cachepilot.sizes import PAGE_BYTES
from cachepilot.v1 import session_pb2 as wire

DEFAULT = "default"
POLICIES_MAX = 64
GROUPS_MAX = 256

Floats = NDArray[np.float64]


@quickly_made
@dataclass(frozen=True)
class Counterfactual:
    """One interval of one tenant, in pages.

    `misses` has the shape (policies, groups); `reread` are the pages that a swap to each policy
    has to read anew; pages are sampled at `rate`.
    """

    policies: tuple[str, ...]
    misses: Floats
    reread: Floats
    cache_pages: float
    rate: float


@dataclass(frozen=True)
class _Totals:
    generation: int
    policies: tuple[str, ...]
    misses: Floats
    reread: Floats


def _read(told: wire.Counterfactuals) -> _Totals:
    """Raises InputError for shapes that do not fit and values that cannot be."""
    policies, groups = tuple(told.policies), len(told.accesses_total)
    fits = 0 < len(policies) <= POLICIES_MAX and 2 <= groups <= GROUPS_MAX
    fits = fits and len(set(policies)) == len(policies)
    fits = fits and len(told.misses_total) == len(policies) * groups
    if not fits or len(told.reread_pages) != len(policies):
        raise InputError(
            f"counterfactuals: {len(policies)} policies, {groups} groups, "
            f"{len(told.misses_total)} totals (allowed: a total for each policy and group, "
            f"1 to {POLICIES_MAX} policies, 2 to {GROUPS_MAX} groups)"
        )
    misses = np.array(told.misses_total).reshape(len(policies), groups)
    reread = np.array(told.reread_pages)
    if not all(np.isfinite(pages).all() and (pages >= 0).all() for pages in (misses, reread)):
        raise InputError("counterfactuals: a value is not a number of pages (allowed: 0 or more)")
    if policies[0] != DEFAULT:
        raise InputError(f"counterfactuals: policies: {policies[0]} is first (allowed: {DEFAULT})")
    if not 0 < told.rate <= 1:
        raise InputError(f"counterfactuals: rate: {told.rate} (allowed: above 0, at most 1)")
    return _Totals(told.generation, policies, misses, reread)


class Counterfactuals:
    """Totals of one tenant as they were last told."""

    def __init__(self) -> None:
        self._last: _Totals | None = None

    def forget(self) -> None:
        """The next totals are of other caches, or of a time that cannot be compared."""
        self._last = None

    def take(self, tenant: wire.Tenant) -> Counterfactual | None:
        """The interval since the last totals; None when there is none, or they began anew.

        Raises InputError for totals that contradict themselves.
        """
        if not tenant.HasField("counterfactuals"):
            self._last = None
            return None
        told = tenant.counterfactuals
        then, self._last = self._last, None
        now = self._last = _read(told)
        if then is None or (then.generation, then.policies) != (now.generation, now.policies):
            return None
        misses = now.misses - then.misses
        if (misses < 0).any():
            return None
        pages = told.size_bytes / PAGE_BYTES
        return Counterfactual(now.policies, misses, now.reread, pages, told.rate)
