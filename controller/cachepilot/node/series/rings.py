# SPDX-License-Identifier: Apache-2.0
"""Rings of points of all tenants of a node at the same times, in 16 bits a value.

A value is at least 0. It has 6 bits of exponent and 10 of fraction: from 2^-14 to 2^49 its error is
at most a twentieth of a percent, and smaller values become 0.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from cachepilot.domain.snapshot import FloatArray, IntArray

GAP_S = 60.0
"""A longer time without snapshots, above two steps too, is an outage: charts show a gap."""
NAN = float("nan")
T = TypeVar("T", bound=np.generic)
Codes = npt.NDArray[np.uint16]
FRACTION_CUT = 13
"""Bits of the fraction of single precision that are dropped."""
LEAST = (127 - 14) << 10
"""The code of 2^-14 if its exponent were biased as in single precision."""
NOT_KNOWN = 0xFFFF


def encoded(values: FloatArray) -> Codes:
    """Return the codes of values of any shape; NaN becomes NOT_KNOWN."""
    known = values >= 0
    single = np.where(known, values, 0.0).astype(np.float32)
    rounded = (single.view(np.uint32).astype(np.int64) + (1 << FRACTION_CUT - 1)) >> FRACTION_CUT
    codes = np.clip(rounded - LEAST + 1, 0, NOT_KNOWN - 1)
    return np.where(known, codes, NOT_KNOWN).astype(np.uint16)


def decoded(codes: Codes) -> npt.NDArray[np.float32]:
    """Return the values of codes."""
    bits = (codes.astype(np.uint32) + np.uint32(LEAST - 1)) << np.uint32(FRACTION_CUT)
    found = np.where(codes == 0, np.float32(0.0), bits.view(np.float32))
    return np.where(codes == NOT_KNOWN, np.float32(NAN), found)


def grown(array: npt.NDArray[T], rows: int) -> npt.NDArray[T]:
    """Return the array with this number of rows; new rows are 0."""
    more = np.zeros((rows - len(array), *array.shape[1:]), array.dtype)
    return np.concatenate((array, more))


class Ring:
    """The last `points` points of every row. With a step, each is the mean over that step.

    An outage is one point without values, at half of its time. A value that was never known for any
    row takes no memory.
    """

    def __init__(self, width: int, interval_s: float, points: int, step_s: float = 0.0) -> None:
        self._step_s, self._size = step_s, points
        self._gap_s = max(2 * interval_s, 2 * step_s, GAP_S)
        self._times: FloatArray = np.full(points, NAN)
        self._codes: list[Codes | None] = [None] * width
        """By value, arrays of shape (rows, points)."""
        self._policies: Codes = np.zeros((0, points), np.uint16)
        self._since: IntArray = np.zeros(0, np.int64)
        self._policy: Codes = np.zeros(0, np.uint16)
        summed = width if step_s else 0
        self._sums: FloatArray = np.zeros((0, summed))
        self._known: npt.NDArray[np.int32] = np.zeros((0, summed), np.int32)
        self._count = 0
        self._begun_s: float | None = None
        self._last_s: float | None = None

    def grow(self, rows: int) -> None:
        """Make room for this number of rows."""
        self._codes = [None if one is None else grown(one, rows) for one in self._codes]
        for name in ("_policies", "_since", "_policy", "_sums", "_known"):
            setattr(self, name, grown(getattr(self, name), rows))

    def take(
        self, time_s: float, rows: IntArray, new: IntArray, policies: Codes, values: FloatArray
    ) -> None:
        """Add the values of each row; `new` rows begin with this point."""
        if self._last_s is not None and time_s - self._last_s > self._gap_s:
            self._break(self._last_s, time_s)
        self._last_s = time_s
        self._since[new], self._sums[new], self._known[new] = self._count, 0.0, 0
        self._policy[rows] = policies
        if self._step_s == 0:
            self._add(time_s, rows, values)
            return
        is_known = ~np.isnan(values)
        self._sums[rows] += np.where(is_known, values, 0.0)
        self._known[rows] += is_known
        if self._begun_s is None:
            self._begun_s = time_s
        if time_s - self._begun_s >= self._step_s:
            self._flush(time_s)
            self._begun_s = time_s

    def _break(self, last_s: float, time_s: float) -> None:
        """End the present sum at the last time before an outage, and add a point for the outage."""
        if self._known.any():
            self._flush(last_s)
        self._begun_s = None
        shape = len(self._sums), len(self._codes)
        self._add((last_s + time_s) / 2, np.arange(shape[0]), np.full(shape, NAN))

    def _flush(self, time_s: float) -> None:
        means = np.where(self._known > 0, self._sums / np.maximum(self._known, 1), NAN)
        self._add(time_s, np.arange(len(means)), means)
        self._sums[:], self._known[:] = 0.0, 0

    def _add(self, time_s: float, rows: IntArray, values: FloatArray) -> None:
        at = self._count % self._size
        self._times[at] = time_s
        self._policies[rows, at] = self._policy[rows]
        for value, codes in enumerate(encoded(values).T):
            kept = self._codes[value]
            if kept is None and (codes != NOT_KNOWN).any():
                kept = self._codes[value] = np.full(self._policies.shape, NOT_KNOWN, np.uint16)
            if kept is not None:
                kept[rows, at] = codes
        self._count += 1

    @property
    def count(self) -> int:
        """The number of points so far, which is the number of the next one."""
        return self._count

    def first(self, row: int) -> int:
        """The number of the oldest point of a row that is still in the ring."""
        return max(self._count - self._size, int(self._since[row]))

    def segment(self, row: int, start: int, end: int) -> tuple[FloatArray, Codes, Codes]:
        """Return times, policies and codes (points, values) of the points numbered [start, end)."""
        first = max(start, self.first(row))
        order = np.arange(first, max(first, min(end, self._count))) % self._size
        unknown = np.full(len(order), NOT_KNOWN, np.uint16)
        return (
            self._times[order],
            self._policies[row, order],
            np.stack([unknown if one is None else one[row, order] for one in self._codes], 1),
        )
