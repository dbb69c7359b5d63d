# SPDX-License-Identifier: Apache-2.0
"""The last intervals of one tenant, kept as bare numbers: objects take four times the memory."""

from array import array
from collections.abc import Iterator

from cachepilot.control.counters import NAN, Sample

FIELDS = 8


def _known(value: float) -> float | None:
    return value if value == value else None  # noqa: PLR0124  # Not NaN.


class Samples:
    """The last `most` samples, the oldest first."""

    __slots__ = ("_most", "_values")

    def __init__(self, most: int) -> None:
        self._most = most
        self._values = array("d")

    def append(self, one: Sample) -> None:
        """Adds the newest; the oldest goes when there are too many."""
        values = self._values
        values.extend(
            (
                one.time_s,
                one.elapsed_s,
                one.ops,
                one.miss_ratio,
                one.accesses,
                NAN if one.read_us is None else one.read_us,
                NAN if one.device_read_us is None else one.device_read_us,
                one.reads_per_call,
            )
        )
        if len(values) > FIELDS * self._most:
            del values[:FIELDS]

    def __iter__(self) -> Iterator[Sample]:
        for at in range(0, len(self._values), FIELDS):
            time_s, elapsed_s, ops, miss, accesses, *calls = self._values[at : at + FIELDS]
            read_us, device_us, reads = calls
            yield Sample(
                time_s,
                elapsed_s,
                ops,
                miss,
                int(accesses),
                _known(read_us),
                _known(device_us),
                reads,
            )
