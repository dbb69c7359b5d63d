# SPDX-License-Identifier: Apache-2.0
"""Calibration of a curve at the limits that a tenant has had: measured against predicted misses.

A curve may misplace a cliff, lack accesses that are not sampled, or lag behind its workload. Most
of the sampling error is one of its level, the same at all sizes. The error of the curve is
therefore modelled as a random walk over the logarithm of the limit, and smoothed (Rauch, Tung and
Striebel 1965). Each limit that was in force is a noisy observation of the walk. A limit that was
measured for long counts by itself, and one of a few seconds mostly by its neighbours. The pace of
the walk is estimated from how much limits differ beyond their noise (the method of moments of
DerSimonian and Laird 1986). Between two limits the mean of a walk is linear in the distance, and
beyond the last one it is constant. With less memory than was ever measured, a curve is lowered by
no more than a level may be off. A larger difference is a misplaced cliff, which may be anywhere
below, where nothing was measured.

What counts in the end is the time of operations. With another limit other operations may miss, and
wait for more or fewer of their misses. The throughput model is fitted to the present limit, so it
may be wrong at all others even if the curve is right. The time of operations at a limit beyond what
the present model predicts therefore counts as misses at that limit, too.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from operator import add
from typing import NamedTuple

from cachepilot.domain.snapshot import Demand
from cachepilot.model.calibration import FORGOTTEN_S, PRIOR_S
from cachepilot.sizes import PAGE_BYTES

NEAR_SHARE = 0.01
"""Share of a limit within which measurements at another limit count for both."""
ANCHORS_MAX = 6
"""Limits remembered per tenant. If there are more, the one with the least time is dropped."""
LEVEL_SD = 0.05
"""Miss ratio by which a trusted curve may be off beside its error bar (as in the agent)."""
WALK_SD_MIN = 0.02
"""Least pace of the walk per square root of an e-fold of memory, as a miss ratio: the difference
between a policy's simulation and the kernel's (experiments/conformance)."""
LEAST_CHANGE = 0.002
"""Miss ratio steps to which corrections are rounded, so that curves are rarely corrected again."""
LEVEL_MOST = 3 * LEVEL_SD
"""A larger difference of miss ratios is not one of the level of the curve."""
TIME_ERROR = 0.3
"""Relative throughput error of a model whose error is unknown."""
LEAST_S = LEAST_CHANGE * PRIOR_S
"""Seconds of a limit below which its correction is less than a step if half of accesses miss."""


class Done(NamedTuple):
    """Operations and their times in microseconds, as sums.

    `time_us` is the time that they took. `read_us` is the time if each had waited for one device
    read, and `missed_us` is that times the miss ratio.
    """

    ops: float = 0.0
    time_us: float = 0.0
    read_us: float = 0.0
    missed_us: float = 0.0

    def waits(self, demand: Demand) -> tuple[float, float]:
        """The miss ratio to add so that the model explains the time, and its variance.

        The variance is that of one interval, from the error of the model's predictions. Both are 0
        if nothing was done.
        """
        all_us = demand.accesses_per_op * self.read_us
        if all_us <= 0:
            return 0.0, 0.0
        model_us = demand.service_us * self.ops + demand.accesses_per_op * self.missed_us
        off = TIME_ERROR if demand.error_pct is None else demand.error_pct / 100
        return (self.time_us - model_us) / all_us, (off * self.time_us / all_us) ** 2


class CalibrationError(NamedTuple):
    """Standard errors of a calibrated curve, as miss ratios.

    `level` is that of its level at one limit. `pace` is the variance by which the errors at two
    limits differ per e-fold of memory between them.
    """

    level: float
    pace: float

    def between(self, from_bytes: int, to_bytes: int) -> float:
        """The standard error of the difference between two limits, beside that of the sample."""
        return math.sqrt(self.pace * abs(math.log(max(to_bytes, 1) / max(from_bytes, 1))))


UNCALIBRATED = CalibrationError(LEVEL_SD, WALK_SD_MIN**2)
"""The errors of a curve before anything was measured at any limit."""


class Off(NamedTuple):
    """Measured minus predicted miss ratio at a limit, and its variance.

    It is from `seconds` of measurement. `spread` is the variance of one access, relative to that at
    a miss ratio of one half.
    """

    off: float
    variance: float
    seconds: float
    spread: float


NOTHING_DONE = Done()
Shifts = tuple[tuple[int, float], ...]
"""Limits in bytes, ascending, and by how much to correct the miss ratio of a curve there."""


@dataclass
class Anchor:
    """A limit that was in force, with accesses, misses, predicted misses (`told`), and operations.

    All fade: while the limit is in force with the caller's half-life, and then, for `aside_s`
    seconds, more slowly. `seconds` is the time that they stood for when it was last in force. They
    include limits that are nearly the same, down to `least_bytes`.
    """

    limit_bytes: int
    accesses: float = 0.0
    misses: float = 0.0
    told: float = 0.0
    seconds: float = 0.0
    done: Done = NOTHING_DONE
    aside_s: float = 0.0
    least_bytes: int = 0

    @property
    def left(self) -> float:
        """The share that is left of what was known when the limit was last in force."""
        found: float = 0.5 ** (self.aside_s / FORGOTTEN_S)
        return found

    @property
    def known_s(self) -> float:
        """The seconds of measurement that are left."""
        return self.left * self.seconds

    def fade(self, share: float) -> None:
        """Keep the share `share` of what is known, while the limit is in force."""
        share *= self.left
        self.aside_s = 0.0
        self.thin(share)

    def thin(self, share: float) -> None:
        """Let all sums count for the share `share` of themselves."""
        self.accesses *= share
        self.misses *= share
        self.told *= share
        self.seconds *= share
        self.done = Done(*(share * one for one in self.done))

    def off(self, demand: Demand) -> Off:
        """The error of the curve at this limit, with unexpected waits counted as misses.

        The corrected miss ratio stays between 0 and 1. The variance has two parts: that of a ratio
        of so many accesses, and that of a workload that varies by itself. By the latter, `PRIOR_S`
        seconds say no more of a curve than that it is trusted, if half of accesses miss. Miss
        ratios near 0 or 1 vary less.
        """
        accesses, left = max(self.accesses, 1.0), self.left
        waits, by_throughput = self.done.waits(demand)
        found, told = (self.misses - self.told) / accesses + waits, self.told / accesses
        missed = (self.misses + 1) / (self.accesses + 2)
        seconds, spread = left * self.seconds, 4 * missed * (1 - missed)
        by_time = PRIOR_S * LEVEL_SD**2 / seconds
        variance = spread * (0.25 / (left * self.accesses + 2) + by_time)
        if by_throughput:
            variance += PRIOR_S / seconds * by_throughput
        return Off(min(max(found, -told), 1.0 - told), variance, seconds, spread)


@dataclass
class LimitCalibration:
    """The calibration of one tenant in one regime; `anchors` are in ascending order of limits.

    They were measured under `policy`, except for up to `PRIOR_S` seconds of each: the curves of all
    policies have most of the sampling error in common, and each has an error of its own. `before`
    is what was known when the policy before, `policy_before`, was last in force.
    """

    anchors: list[Anchor] = field(default_factory=list)
    policy: str = ""
    before: list[Anchor] = field(default_factory=list)
    policy_before: str = ""

    def forget(self) -> None:
        """Forget all measurements, as they are of another workload."""
        self.anchors.clear()
        self.before.clear()

    def follow(self, policy: str) -> None:
        """Measure under `policy` from now on. What an undone change knew before it counts again."""
        if policy == self.policy:
            return
        if self.policy and policy == self.policy_before and self.before:
            self.anchors, self.before = self.before, self.anchors
        elif self.policy:
            self.before = [replace(one) for one in self.anchors]
            for one in self.anchors:
                one.thin(min(1.0, PRIOR_S / max(one.known_s, 1e-9)))
        self.policy, self.policy_before = policy, self.policy

    def take(
        self,
        limit_bytes: int,
        pages: Sequence[int],
        told: float,
        elapsed_s: float,
        half_life_s: float,
        done: Done = NOTHING_DONE,
    ) -> None:
        """Take in an interval: accesses and misses (`pages`), and the predicted miss ratio `told`.

        `done` is empty if throughput does not count or is unknown.
        """
        here = self._at(limit_bytes)
        here.least_bytes = min(here.least_bytes or limit_bytes, limit_bytes)
        here.fade(0.5 ** (elapsed_s / half_life_s))
        if len(self.anchors) > 1:
            for one in self.anchors:
                one.aside_s += 0.0 if one is here else elapsed_s
            self.anchors = [one for one in self.anchors if one is here or one.known_s >= LEAST_S]
        for one in self.before:
            one.aside_s += elapsed_s
        accesses, misses = pages[:2]
        here.accesses += accesses
        here.misses += min(misses, accesses)
        here.told += told * accesses
        here.seconds += elapsed_s
        here.done = Done(*map(add, here.done, done))

    def _at(self, limit_bytes: int) -> Anchor:
        """The anchor of a limit, or a new one if none is near."""
        near = min(self.anchors, key=lambda one: abs(one.limit_bytes - limit_bytes), default=None)
        if near is not None and abs(near.limit_bytes - limit_bytes) <= NEAR_SHARE * limit_bytes:
            return near
        if len(self.anchors) >= ANCHORS_MAX:
            # The outer limits are kept: they bound the interpolation, and the first memory (the
            # limit a tenant had when it was first seen) is often one of them.
            self.anchors.remove(min(self.anchors[1:-1], key=lambda one: one.known_s))
        found = Anchor(limit_bytes)
        insort(self.anchors, found, key=lambda one: one.limit_bytes)
        return found

    def shifts(self, demand: Demand) -> Shifts:
        """Limits and the error of the curve at each, rounded to steps worth a correction.

        `demand` is the present throughput model.
        """
        anchors = [one for one in self.anchors if one.known_s > 0]
        limits = [one.limit_bytes for one in anchors]
        known = [one.off(demand) for one in anchors]
        if not known:
            return ()
        levels = _levels(limits, [one._replace(off=max(one.off, -LEVEL_MOST)) for one in known])
        shifts = tuple(
            (limit, _in_steps(level + lower))
            for limit, level, lower in zip(limits, levels, _lower(known), strict=True)
        )
        # With less memory than was ever measured, only the level is known.
        (limit, shift), level = shifts[0], _in_steps(levels[0])
        least = min(anchors[0].least_bytes or limit, limit)
        if shift == level or least <= PAGE_BYTES:
            return shifts
        at_least = ((least, shift),) if least < limit else ()
        return ((least - PAGE_BYTES, level), *at_least, *shifts)

    def error_at(self, limit_bytes: int, demand: Demand) -> CalibrationError:
        """The errors that are left at a limit; `demand` is the present throughput model.

        What was measured nearest counts, in mind of its distance, with the prior that a trusted
        curve may be off by `LEVEL_SD`.
        """
        anchors = [one for one in self.anchors if one.known_s > 0]
        if not anchors:
            return UNCALIBRATED
        known = [(math.log(one.limit_bytes), one.off(demand)) for one in anchors]
        pace = _walk([(log, one.off, one.variance) for log, one in known])
        pace = max(pace, WALK_SD_MIN**2)
        here = math.log(max(limit_bytes, 1))
        variance = min(one.variance + pace * abs(log - here) for log, one in known)
        return CalibrationError((LEVEL_SD**-2 + 1 / variance) ** -0.5, pace)


def _in_steps(shift: float) -> float:
    return round(shift / LEAST_CHANGE) * LEAST_CHANGE


def _lower(known: Sequence[Off]) -> list[float]:
    """The part of each error that is too negative to be one of the level.

    It holds from the limit on at which it was measured. It is weighted against `PRIOR_S` seconds of
    no error.
    """
    found, lower = [], 0.0
    for one in known:
        sure = one.seconds / (one.seconds + PRIOR_S * one.spread)
        lower = sure * min(one.off + LEVEL_MOST, 0.0) + (1 - sure) * lower
        found.append(lower)
    return found


def _levels(limits: Sequence[int], known: Sequence[Off]) -> list[float]:
    """The error of the level of the curve at each limit, smoothed over all limits.

    The walk may begin anywhere. All measurements are weighted against `PRIOR_S` s of no error.
    """
    if len(known) == 1:
        # A shortcut for most tenants, which stay at one limit: what the walk below would return.
        one = known[0]
        mean = one.off / (1.0 + one.variance)
        return [mean * one.seconds / (one.seconds + PRIOR_S * one.spread)]
    logs = map(math.log, limits)
    seen = [(log, one.off, one.variance) for log, one in zip(logs, known, strict=True)]
    per_e_fold = _walk(seen)
    before, after, means = [], [], []
    mean, variance = 0.0, 1.0
    last = seen[0][0]
    for here, off, noise in seen:
        variance += per_e_fold * (here - last)
        last = here
        before.append(variance)
        gain = variance / (variance + noise)
        mean += gain * (off - mean)
        variance *= 1 - gain
        after.append(variance)
        means.append(mean)
    for i in range(len(known) - 2, -1, -1):
        means[i] += after[i] / before[i + 1] * (means[i + 1] - means[i])
    seconds = sum(one.seconds for one in known)
    prior_s = PRIOR_S * max(one.spread for one in known)
    return [mean * seconds / (seconds + prior_s) for mean in means]


def _walk(seen: Sequence[tuple[float, float, float]]) -> float:
    """The variance of the walk per e-fold of memory, estimated from all pairs of limits.

    `seen` has for each limit its logarithm, the error of the curve there, and the variance of that.
    A pair is weighted by its information on a slow walk: its distance over its noise, squared.
    """
    beyond = weights = 0.0
    for (low, below, low_noise), (high, above, high_noise) in combinations(seen, 2):
        # The square of the noise may exceed the range of a float.
        noise, apart = low_noise + high_noise, high - low
        beyond += apart / noise * ((above - below) ** 2 / noise - 1)
        weights += (apart / noise) ** 2
    return max(beyond / weights, WALK_SD_MIN**2) if weights else 0.0


def corrected(miss: float, limit_bytes: int, shifts: Shifts) -> float:
    """The miss ratio `miss` that a curve predicts at a limit, corrected by `shifts`."""
    return min(max(miss + _shift_at(limit_bytes, shifts), 0.0), 1.0) if shifts else miss


def _shift_at(limit_bytes: int, shifts: Shifts) -> float:
    """The correction at a limit: linear in its logarithm, constant outside known limits."""
    above = bisect_left(shifts, (limit_bytes, -2.0))
    if above == 0:
        return shifts[0][1]
    if above == len(shifts):
        return shifts[-1][1]
    (low, first), (high, last) = shifts[above - 1], shifts[above]
    part = math.log(limit_bytes / low) / math.log(high / low)
    return first + (last - first) * part
