# SPDX-License-Identifier: Apache-2.0
"""Misses that every candidate policy would have had in the last interval, from totals on the wire.

Such a simulated policy that is not in force is a counterfactual.
"""

from collections.abc import Sequence
from sys import intern
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachepilot.errors import InputError
from cachepilot.sizes import PAGE_BYTES
from cachepilot.v1 import session_pb2 as wire

DEFAULT = "default"
POLICIES_MAX = 64
GROUPS_MAX = 256

Floats = NDArray[np.float64]


class Counterfactual(NamedTuple):
    """The simulated misses of one interval of one tenant, in pages.

    `misses` has the shape (policies, groups), where groups of pages are independent samples, taken
    at `rate`. `reread` are the pages that a change to each policy has to read again; all are 0 if
    that is unknown. `cache_pages` is the size of the simulated page cache.
    """

    policies: tuple[str, ...]
    misses: Floats
    reread: Floats
    cache_pages: float
    rate: float


class _Totals(NamedTuple):
    """Totals as received; `misses` is flat, policy by policy."""

    generation: int
    policies: tuple[str, ...]
    misses: Floats


def _read(told: wire.Counterfactuals, then: _Totals | None) -> tuple[_Totals, list[float]]:
    """The totals, and the pages that changes to each policy read again.

    Raises InputError if shapes do not fit, or if names or the rate are invalid.
    """
    names, groups = told.policies[:], len(told.accesses_total)
    # Names equal to the last ones have been checked and interned already.
    policies = tuple(names)
    if then is not None and then.policies == policies:
        policies = then.policies
    else:
        # Thousands of tenants share the same few names.
        policies = tuple(map(intern, names))
    misses, reread = np.array(told.misses_total), told.reread_pages[:]
    fits = 0 < len(policies) <= POLICIES_MAX and 2 <= groups <= GROUPS_MAX
    is_known = then is not None and then.policies is policies
    fits = fits and (is_known or len(set(policies)) == len(policies))
    if not fits or misses.size != len(policies) * groups or len(reread) != len(policies):
        raise InputError(
            f"counterfactuals: {len(policies)} policies, {groups} groups, "
            f"{misses.size} totals (allowed: a total for each policy and group, "
            f"1 to {POLICIES_MAX} policies, 2 to {GROUPS_MAX} groups)"
        )
    if policies[0] != DEFAULT:
        raise InputError(f"counterfactuals: policies: {policies[0]} is first (allowed: {DEFAULT})")
    if not 0 < told.rate <= 1:
        raise InputError(f"counterfactuals: rate: {told.rate} (allowed: above 0, at most 1)")
    return _Totals(told.generation, policies, misses), reread


def _are_pages(values: Floats) -> bool:
    """Whether all values are finite and at least 0; NaN is not."""
    return bool(values.size == 0 or (values.min() >= 0 and values.max() < np.inf))


class Counterfactuals:
    """The last received totals of one tenant."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: _Totals | None = None

    def forget(self) -> None:
        """Forget the totals: the next are of other caches, or after a gap."""
        self.last = None

    def take(self, tenant: wire.Tenant) -> Counterfactual | None:
        """The interval since the last totals; None if there are none, or they started again.

        Raises InputError for totals that contradict themselves.
        """
        (found,) = take_all([(self, tenant)])
        if isinstance(found, InputError):
            raise found
        return found


def take_all(
    told: Sequence[tuple[Counterfactuals, wire.Tenant]],
) -> list[Counterfactual | InputError | None]:
    """`Counterfactuals.take` for many tenants at once; errors are returned, not raised."""
    found: list[Counterfactual | InputError | None] = [None] * len(told)
    known: list[tuple[int, _Totals | None, _Totals, slice]] = []
    flat: list[float] = []
    for i, (totals, tenant) in enumerate(told):
        then, totals.last = totals.last, None
        if tenant.HasField("counterfactuals"):
            try:
                now, reread = _read(tenant.counterfactuals, then)
            except InputError as error:
                found[i] = error
                continue
            known.append((i, then, now, slice(len(flat), len(flat) + len(reread))))
            flat += reread
    anew = np.array(flat)
    all_fine = _are_pages(_joined([now.misses for _, _, now, _ in known])) and _are_pages(anew)
    both = []
    for i, then, now, where in known:
        if not (all_fine or (_are_pages(now.misses) and _are_pages(anew[where]))):
            found[i] = InputError(
                "counterfactuals: a value is not a number of pages (allowed: 0 or more)"
            )
            continue
        told[i][0].last = now
        if then is None or then.generation != now.generation or then.policies != now.policies:
            continue
        if then.misses.size == now.misses.size:
            both.append((i, then, now, where))
    changed = _joined([now.misses for _, _, now, _ in both])
    changed -= _joined([then.misses for _, then, _, _ in both])
    never_fell = bool(changed.size == 0 or changed.min() >= 0)
    at = 0
    for i, _, now, where in both:
        misses = changed[at : at + now.misses.size].reshape(len(now.policies), -1)
        at += now.misses.size
        if never_fell or bool(misses.min() >= 0):
            one = told[i][1].counterfactuals
            pages = one.size_bytes / PAGE_BYTES
            found[i] = Counterfactual(now.policies, misses, anew[where], pages, one.rate)
    return found


def _joined(arrays: Sequence[Floats]) -> Floats:
    return np.concatenate(arrays) if arrays else np.zeros(0)
