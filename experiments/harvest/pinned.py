# SPDX-License-Identifier: Apache-2.0
"""Throughputs of policies that are known beforehand: one pinned, or the best sequence in hindsight.

The model is a closed loop. Every operation takes `SERVICE_US`, plus `READ_US` if it misses.
`CONCURRENCY` operations are in flight, and no device is short.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from experiments.harvest.loads import Load
from numpy.typing import NDArray

from cachepilot import _models, manifest

SERVICE_US = 20.0
READ_US = 500.0
CONCURRENCY = 4
SECOND_US = 1e6 * CONCURRENCY
CHUNK = 1 << 16
KERNEL_DEFAULT = "kernel_lru"
"""The model of the kernel's own order of pages."""
MEAN_KEEPS = 0.9
"""Decay factor per chunk of the exponential mean that naive following uses."""

Missed = NDArray[np.bool_]


def may_choose() -> list[str]:
    """Return the policies that the autopilot may choose."""
    return [one.name for one in manifest.policies().values() if one.autopilot]


def attachable() -> list[str]:
    """Return the kernel's default, and all policies that can be attached to the kernel instead."""
    return [KERNEL_DEFAULT, *manifest.attachable()]


@dataclass
class Misses:
    """The requests of a load that missed under one policy, served on demand."""

    load: Load
    cache: _models.Cache
    served: int = 0
    counts: list[int] = field(default_factory=list)
    bits: list[NDArray[np.uint8]] = field(default_factory=list)

    @classmethod
    def of(cls, load: Load, policy: str) -> "Misses":
        """Create an instance that has served nothing yet."""
        return cls(load, _models.Cache(policy, load.size_pages))

    def _serve_to(self, chunk: int) -> None:
        while len(self.bits) <= chunk:
            missed = ~self.cache.run(self.load.chunk(len(self.bits) * CHUNK, CHUNK))
            self.counts.append(int(np.count_nonzero(missed)))
            self.bits.append(np.packbits(missed))

    def count(self, chunk: int) -> int:
        """Return the number of misses in a chunk of requests."""
        self._serve_to(chunk)
        return self.counts[chunk]

    def get(self, chunk: int) -> Missed:
        """Return which requests of a chunk missed."""
        self._serve_to(chunk)
        return np.unpackbits(self.bits[chunk]).astype(np.bool_)


def times_us(missed: Missed) -> NDArray[np.float64]:
    """Return the time of each request."""
    return np.asarray(SERVICE_US + READ_US * missed, dtype=np.float64)


def ops_per_second(miss_ratio: float) -> float:
    """Return the operations per second of a load with a pace of 1."""
    return SECOND_US / (SERVICE_US + READ_US * miss_ratio)


def throughput_ops(missed: Callable[[int], Missed], seconds: float) -> float:
    """Return operations per second in the second half of a run.

    `missed` returns which requests of a chunk missed.
    """
    now_us = 0.0
    done = half_done = chunk = 0
    half_us, end_us = seconds / 2 * SECOND_US, seconds * SECOND_US
    while now_us < end_us:
        times = now_us + np.cumsum(times_us(missed(chunk)))
        half_done += int(np.searchsorted(times, half_us, side="right"))
        done += int(np.searchsorted(times, end_us, side="right"))
        now_us = float(times[-1])
        chunk += 1
    return (done - half_done) / (seconds / 2)


def served(missed: Callable[[int], Missed], seconds: float) -> int:
    """Return the number of requests that are served in `seconds`."""
    now_us, chunk = 0.0, 0
    while True:
        times = now_us + np.cumsum(times_us(missed(chunk)))
        if times[-1] >= seconds * SECOND_US:
            return chunk * CHUNK + int(np.searchsorted(times, seconds * SECOND_US, side="right"))
        now_us = float(times[-1])
        chunk += 1


def time_s(missed: Callable[[int], Missed], first: int, last: int) -> float:
    """Return the time in seconds that requests `first` to `last` take."""
    total_us = 0.0
    for chunk in range(first // CHUNK, -(-last // CHUNK)):
        begin, end = max(0, first - chunk * CHUNK), last - chunk * CHUNK
        total_us += float(times_us(missed(chunk)[begin:end]).sum())
    return total_us / SECOND_US


def best_sequence(known: Mapping[str, Misses]) -> Callable[[int], Missed]:
    """Return, for every chunk, the misses of the policy that misses least in it.

    Swaps cost nothing.
    """

    def missed(chunk: int) -> Missed:
        return min(known.values(), key=lambda one: one.count(chunk)).get(chunk)

    return missed


def naive(known: Mapping[str, Misses], first: str) -> Callable[[int], Missed]:
    """Return the misses when the policy with the lowest mean of misses is always put in force.

    The mean is an exponential mean of the misses of every policy on the same accesses.
    """
    load = known[first].load
    cache = _models.Cache(first, load.size_pages)
    mean = dict.fromkeys(known, 0.0)
    in_force = first

    def missed(chunk: int) -> Missed:
        nonlocal in_force
        found = ~cache.run(load.chunk(chunk * CHUNK, CHUNK))
        for name, one in known.items():
            mean[name] = MEAN_KEEPS * mean[name] + one.count(chunk)
        best = min(mean, key=lambda name: mean[name])
        if best != in_force:
            cache.swap(best)
            in_force = best
        return found

    return missed
