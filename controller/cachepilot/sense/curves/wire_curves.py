# SPDX-License-Identifier: Apache-2.0
"""Miss ratio curves from the wire, moved from sizes of the page cache to sizes of the limit.

A limit also covers memory that is not page cache, so curves move right by that amount.
"""

import math
from array import array
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Any

import numpy as np
import numpy.typing as npt

from cachepilot.domain.snapshot import Curves, FloatArray
from cachepilot.sense.curves.cliffs import with_cliffs
from cachepilot.sizes import PAGE_BYTES, pages_up
from cachepilot.v1 import session_pb2 as wire

KNOWN_MAX = 16
"""Number of miss ratios at single limits that are cached for one tenant's curves."""
STEP_SHARE = 0.02
"""Share of the limit by which other memory must change before curves are moved again."""


RATIO, BAR, VARIANCE = range(3)
"""Values of a curve: miss ratios, error bars, or cumulative squared step errors."""


def value_at(
    sizes_bytes: Sequence[int], values: Sequence[float], beyond: float, limit_bytes: int
) -> float:
    """The value at a limit: linear from `beyond` at no memory, constant after the last size.

    Sizes must be in ascending order.
    """
    return value_in(cell_of(sizes_bytes, limit_bytes), values, beyond)


def cell_of(sizes_bytes: Sequence[int], limit_bytes: int) -> tuple[int, float]:
    """The position of a limit: the index of the first larger size, and the fraction up to it."""
    above = bisect_right(sizes_bytes, limit_bytes)
    if above == len(sizes_bytes):
        return above, 0.0
    low = 0 if above == 0 else sizes_bytes[above - 1]
    return above, (limit_bytes - low) / (sizes_bytes[above] - low)


def value_in(cell: tuple[int, float], values: Sequence[float], beyond: float) -> float:
    """The value at a position that `cell_of` returned; see `value_at`."""
    above, part = cell
    start = beyond if above == 0 else values[above - 1]
    return start if above == len(values) else start + (values[above] - start) * part


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """Curves with their error bars, and the sample behind them.

    Single values are read thousands of times per cycle. From numpy arrays each takes microseconds,
    and lists of floats take four times the memory. Sizes and the rows of policies that are read are
    therefore copied into `array` objects, and miss ratios at single limits are cached.
    """

    curves: Curves
    sampled: int = 0
    rate: float = 0.0
    _sizes: "array[int]" = field(init=False)
    _rows: dict[tuple[str, int], "array[float] | None"] = field(init=False)
    _known: dict[tuple[str, int], float | None] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sizes", array("q", self.curves.sizes_bytes.tobytes()))
        object.__setattr__(self, "_rows", {})
        object.__setattr__(self, "_known", {})

    @property
    def error_bar(self) -> FloatArray:
        """Error bars of shape (P, S); 0 if unknown."""
        bars = self.curves.error_bar
        return np.zeros_like(self.curves.miss_ratio) if bars is None else bars

    def _row(self, policy: str, kind: int) -> "array[float] | None":
        """The values of one policy; None if it has no curve, or step errors are not reported."""
        known, key = self._rows, (policy, kind)
        if key not in known:
            known[key] = self._made(policy, kind)
        return known[key]

    def _made(self, policy: str, kind: int) -> "array[float] | None":
        names, steps = self.curves.policies, self.curves.step_bar
        if policy not in names:
            return None
        row = names.index(policy)
        if kind is not VARIANCE:
            found = self.error_bar if kind is BAR else self.curves.miss_ratio
            return array("d", found[row].tolist())
        if steps is None:
            return None
        told = steps[row].astype(np.float64)
        return array("d", np.cumsum(told * told).tobytes())

    def miss_at(self, policy: str, limit_bytes: int) -> float | None:
        """The miss ratio under `policy` at a limit; None if the policy has no curve."""
        known, key = self._known, (policy, limit_bytes)
        try:
            return known[key]
        except KeyError:
            row = self._row(policy, RATIO)
            found = None if row is None else value_at(self._sizes, row, 1.0, limit_bytes)
            if len(known) >= KNOWN_MAX:
                known.clear()
            known[key] = found
            return found

    def points(self, policy: str) -> list[tuple[int, float]]:
        """Sizes and miss ratios of a policy; empty if it has no curve."""
        row = self._row(policy, RATIO)
        return [] if row is None else list(zip(self._sizes, row, strict=True))

    def error_at(self, policy: str, limit_bytes: int) -> float:
        """The half-width of the error bar at a limit; 1 if the policy has no curve."""
        row = self._row(policy, BAR)
        return 1.0 if row is None else value_at(self._sizes, row, 0.0, limit_bytes)

    def error_between(self, policy: str, from_bytes: int, to_bytes: int) -> float:
        """The half-width of the error bar of the difference between two limits, at most 1.

        Squared step errors add up; a part of a step counts for that part of its square. Most of the
        error of a curve is common to all sizes and not included. The result is at most that of two
        independent values, and equals that if the agent reports no step errors.
        """
        sizes, bars = self._sizes, self._row(policy, BAR)
        if bars is None:
            return 1.0
        # This is called thousands of times per cycle, so each limit is located only once.
        here, there = cell_of(sizes, from_bytes), cell_of(sizes, to_bytes)
        apart = math.hypot(value_in(here, bars, 0.0), value_in(there, bars, 0.0))
        row = self._row(policy, VARIANCE)
        if row is None:
            return min(apart, 1.0)
        steps = value_in(there, row, 0.0) - value_in(here, row, 0.0)
        return min(math.sqrt(abs(steps)), apart, 1.0)


def _read_only(values: Sequence[float], kind: type[np.generic]) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = np.array(values, dtype=kind)
    found.setflags(write=False)
    return found


def from_wire(curves: wire.Curves) -> Measured:
    """Every curve from the wire, with its cliffs; raises SnapshotError for invalid curves."""
    # Thousands of tenants share the same few names.
    policies = tuple(map(intern, curves.policies))
    sizes = _read_only(curves.sizes_bytes, np.int64)
    shape = (len(policies), sizes.size)
    # The wire has single precision.
    ratios, bars, told = (
        _read_only(one, np.float32)
        for one in (curves.miss_ratio, curves.error_bar, curves.step_bar)
    )
    steps = told.reshape(shape) if told.size else None
    named = Curves(policies, sizes, ratios.reshape(shape), bars.reshape(shape), steps)
    return Measured(with_cliffs(named), curves.sampled, curves.rate)


def shifted(measured: Measured, other_bytes: int, usable: Collection[str]) -> Measured | None:
    """Curves over the limit of a tenant whose memory besides page cache is `other_bytes`.

    Only policies in `usable` are included; None if there are none of these.
    """
    curves = measured.curves
    rows = [i for i, name in enumerate(curves.policies) if name in usable]
    if not rows:
        return None
    other = pages_up(max(0, other_bytes))
    if other < PAGE_BYTES and len(rows) == len(curves.policies):
        return measured
    names = tuple(curves.policies[i] for i in rows)
    ratios, bars = curves.miss_ratio[rows], measured.error_bar[rows]
    steps = None if curves.step_bar is None else curves.step_bar[rows]
    if other < PAGE_BYTES:
        return replace(measured, curves=Curves(names, curves.sizes_bytes, ratios, bars, steps))
    sizes = np.concatenate(((other,), curves.sizes_bytes + other))
    ones = np.ones((len(rows), 1), ratios.dtype)
    bars = np.hstack((0 * ones, bars))
    steps = None if steps is None else np.hstack((0 * ones, steps))
    ratios = np.hstack((ones, ratios))
    return replace(measured, curves=Curves(names, sizes, ratios, bars, steps))


class CurveStore:
    """The curves of one tenant: the last received, moved only if other memory changed enough."""

    def __init__(self) -> None:
        self.generation = 0
        """Generation of the stored curves; 0 without any."""
        self.measured: Measured | None = None
        """The curves as received: every policy, over sizes of the page cache."""
        self._other_bytes = 0
        self._usable: frozenset[str] = frozenset()
        self._shifted: Measured | None = None

    def take(self, curves: wire.Curves) -> None:
        """Replace the curves; raises SnapshotError for invalid ones."""
        self.measured, self._shifted = from_wire(curves), None
        self.generation = curves.generation

    def at(self, other_bytes: int, limit_bytes: int, usable: frozenset[str]) -> Measured | None:
        """Curves over limits; None if there are none of a usable policy."""
        if self.measured is None:
            return None
        moved = abs(other_bytes - self._other_bytes) > STEP_SHARE * max(limit_bytes, PAGE_BYTES)
        same = usable is self._usable or usable == self._usable
        if self._shifted is None or moved or not same:
            self._other_bytes, self._usable = other_bytes, usable
            self._shifted = shifted(self.measured, other_bytes, usable)
        return self._shifted
