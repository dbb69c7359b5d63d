# SPDX-License-Identifier: Apache-2.0
"""Curves of the wire, which are of the page cache, as curves of the whole limit.

A limit also pays for what is not page cache: curves move right by so much.
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
from cachepilot.sense.cliffs import with_cliffs
from cachepilot.sizes import PAGE_BYTES, pages_up
from cachepilot.v1 import session_pb2 as wire

KNOWN_MAX = 16
"""Miss ratios of single limits that are remembered of one tenant's curves."""
STEP_SHARE = 0.02
"""Of the limit: by how much what is not page cache must change before curves move again."""


RATIO, BAR, VARIANCE = range(3)
"""What is read of a curve: miss ratios, error bars, or the squares of its steps so far."""


def value_at(
    sizes_bytes: Sequence[int], values: Sequence[float], beyond: float, limit_bytes: int
) -> float:
    """Linear from `beyond` at no memory, and flat after the last size; sizes rise."""
    return value_in(cell_of(sizes_bytes, limit_bytes), values, beyond)


def cell_of(sizes_bytes: Sequence[int], limit_bytes: int) -> tuple[int, float]:
    """Where a limit lies: the first size above it, and how far it is there from the one before."""
    above = bisect_right(sizes_bytes, limit_bytes)
    if above == len(sizes_bytes):
        return above, 0.0
    low = 0 if above == 0 else sizes_bytes[above - 1]
    return above, (limit_bytes - low) / (sizes_bytes[above] - low)


def value_in(cell: tuple[int, float], values: Sequence[float], beyond: float) -> float:
    """The value at a limit that lies there, see `value_at`."""
    above, part = cell
    start = beyond if above == 0 else values[above - 1]
    return start if above == len(values) else start + (values[above] - start) * part


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """Curves with their error bars, and the sample behind them.

    Single values are asked for thousands of times per cycle: of arrays of numpy each takes
    microseconds, and lists of floats take four times the memory. So sizes and rows are copied,
    of the policies that are asked for; also what was asked of single limits is remembered.
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
        """Of shape (P, S), 0 where none are known."""
        bars = self.curves.error_bar
        return np.zeros_like(self.curves.miss_ratio) if bars is None else bars

    def _row(self, policy: str, kind: int) -> "array[float] | None":
        """Of one policy; None when it has no curve, or nothing is told of steps."""
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
        """The miss ratio under `policy` at a limit; None when it has no curve."""
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
        """Sizes and miss ratios of a policy; none when it has no curve."""
        row = self._row(policy, RATIO)
        return [] if row is None else list(zip(self._sizes, row, strict=True))

    def error_at(self, policy: str, limit_bytes: int) -> float:
        """The half-width of the error bar there; 1 when there is no curve."""
        row = self._row(policy, BAR)
        return 1.0 if row is None else value_at(self._sizes, row, 0.0, limit_bytes)

    def error_between(self, policy: str, from_bytes: int, to_bytes: int) -> float:
        """The half-width of the error bar of the difference between two limits, at most 1.

        The squares of steps add up, a part of a step counting that part of its own: most of the
        error of a curve is common to all sizes and not in this. At most that of two independent
        values, and that where the agent tells no steps.
        """
        sizes, bars = self._sizes, self._row(policy, BAR)
        if bars is None:
            return 1.0
        # Thousands are asked for in a cycle: where both limits lie is looked up once.
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
    """Every curve of the wire, with its cliffs; SnapshotError when they contradict themselves."""
    # The same few names of thousands of tenants.
    policies = tuple(map(intern, curves.policies))
    sizes = _read_only(curves.sizes_bytes, np.int64)
    shape = (len(policies), sizes.size)
    # Of the wire, which has them in single precision.
    ratios, bars, told = (
        _read_only(one, np.float32)
        for one in (curves.miss_ratio, curves.error_bar, curves.step_bar)
    )
    steps = told.reshape(shape) if told.size else None
    named = Curves(policies, sizes, ratios.reshape(shape), bars.reshape(shape), steps)
    return Measured(with_cliffs(named), curves.sampled, curves.rate)


def shifted(measured: Measured, other_bytes: int, usable: Collection[str]) -> Measured | None:
    """Curves of the limit of a tenant whose memory besides page cache is `other_bytes`.

    Only those of the policies `usable`; None when there is none of them.
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
    """The curves of one tenant: the last that were sent, moved when that is worth it."""

    def __init__(self) -> None:
        self.generation = 0
        """That of the curves that are held; 0 without any."""
        self.measured: Measured | None = None
        """As sent: every policy, over sizes of the page cache."""
        self._other_bytes = 0
        self._usable: frozenset[str] = frozenset()
        self._shifted: Measured | None = None

    def take(self, curves: wire.Curves) -> None:
        """Replaces the curves; SnapshotError when they contradict themselves."""
        self.measured, self._shifted = from_wire(curves), None
        self.generation = curves.generation

    def at(self, other_bytes: int, limit_bytes: int, usable: frozenset[str]) -> Measured | None:
        """Curves over limits; None when there are none of a usable policy."""
        if self.measured is None:
            return None
        moved = abs(other_bytes - self._other_bytes) > STEP_SHARE * max(limit_bytes, PAGE_BYTES)
        same = usable is self._usable or usable == self._usable
        if self._shifted is None or moved or not same:
            self._other_bytes, self._usable = other_bytes, usable
            self._shifted = shifted(self.measured, other_bytes, usable)
        return self._shifted
