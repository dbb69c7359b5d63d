# SPDX-License-Identifier: Apache-2.0
"""Calibration of a curve by the limits that a tenant has had: measured against told.

A curve may misplace a cliff, miss accesses that are not sampled, or lag behind its workload; most
of the error of a sample is one of its level, the same at all sizes. So by how much a curve is off
is taken for a random walk over the logarithm of the limit, of which each limit that was in force
is a noisy observation, and the walk is smoothed (Rauch, Tung and Striebel 1965): limits that were
measured for long stand for themselves, those of a few seconds for what their neighbours are off.
How fast it walks is estimated by what limits differ beyond their noise (the method of moments of
DerSimonian and Laird 1986). Between two limits the mean of a walk is in proportion to their
distance, and beyond the last it stays; but with less memory than was ever measured a curve is lower
by no more than a level may be off. What is more is a cliff that is elsewhere, and of the memory
below that nothing was measured.

What counts in the end is how long operations take. With another limit other operations may miss, of
whose misses more or fewer are waited for; the throughput model, which is fitted to where a tenant
is, is then wrong of all other limits though the curve be right. So what operations took at a limit
beyond what the model of now says of that time is counted as misses, too.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from cachepilot.domain.snapshot import Demand
from cachepilot.model.calibration import FORGOTTEN_S, PRIOR_S
from cachepilot.sizes import PAGE_BYTES

NEAR_SHARE = 0.01
"""Of a limit: what was measured at one that is off by less counts for both."""
ANCHORS_MAX = 6
"""Limits that are remembered of one tenant; that with the least time is dropped."""
LEVEL_SD = 0.05
"""Of a miss ratio: what a curve may be off beside its error bar and still be trusted (agent)."""
WALK_SD_MIN = 0.02
"""The least per square root of an e-fold of memory: what a policy's simulation is off the kernel's
(experiments/conformance)."""
LEAST_CHANGE = 0.002
"""Of a miss ratio: a correction is told in such steps, so that curves are corrected rarely."""
LEVEL_MOST = 3 * LEVEL_SD
"""What is off by more is not the level."""
TIME_ERROR = 0.3
"""Of a throughput: what a model is off of which nothing is known."""
LEAST_S = LEAST_CHANGE * PRIOR_S
"""Of a limit: what is left of it, where half of the accesses miss, corrects by no such step."""


class Done(NamedTuple):
    """Operations, the time that they took, and what one read of each would and did cost them, us.

    The latter are the cost of a miss, and that times the miss ratio.
    """

    ops: float = 0.0
    time_us: float = 0.0
    read_us: float = 0.0
    missed_us: float = 0.0

    def times(self, share: float) -> "Done":
        """That share of it."""
        ops, time_us, read_us, missed_us = self
        return Done(share * ops, share * time_us, share * read_us, share * missed_us)

    def plus(self, other: "Done") -> "Done":
        """Both together."""
        return Done(
            self.ops + other.ops,
            self.time_us + other.time_us,
            self.read_us + other.read_us,
            self.missed_us + other.missed_us,
        )

    def waits(self, demand: Demand) -> tuple[float, float]:
        """What an access missed, beyond what it did, for a model to say the time that was taken.

        And the variance of that of one interval, by how far the model's predictions are off.
        """
        all_us = demand.accesses_per_op * self.read_us
        if all_us <= 0:
            return 0.0, 0.0
        model_us = demand.service_us * self.ops + demand.accesses_per_op * self.missed_us
        off = TIME_ERROR if demand.error_pct is None else demand.error_pct / 100
        return (self.time_us - model_us) / all_us, (off * self.time_us / all_us) ** 2


class Off(NamedTuple):
    """Measured minus told miss ratio at a limit, and the variance of that.

    It is of so many `seconds`; `spread` is the variance of one access, of that where half of them
    miss.
    """

    off: float
    variance: float
    seconds: float
    spread: float


NOTHING_DONE = Done()
Shifts = tuple[tuple[int, float], ...]
"""Limits, bytes, the least first, and by how much a curve is off there."""


@dataclass
class Anchor:
    """A limit that was in force: accesses and misses, the misses that the curve told of, and ops.

    All fade, and for `aside_s` more slowly since it is in force no more. `seconds` is the time that
    they stood for then. They are also of limits that are nearly the same, `least_bytes` at least.
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
        """The share that is left of what was known when it was last in force."""
        found: float = 0.5 ** (self.aside_s / FORGOTTEN_S)
        return found

    @property
    def known_s(self) -> float:
        """The seconds that what is left stands for."""
        return self.left * self.seconds

    def fade(self, share: float) -> None:
        """Keeps that share of what is known, while it is in force."""
        share *= self.left
        self.aside_s = 0.0
        self.accesses *= share
        self.misses *= share
        self.told *= share
        self.seconds *= share
        self.done = self.done.times(share)

    def off(self, demand: Demand) -> Off:
        """By how much the curve is off, what operations waited for beyond that counted as missed.

        No less than if nothing were missed, and no more than if all were. The variance is that of
        a share of so many accesses, and of a workload that varies by itself: by the latter
        `PRIOR_S` seconds tell no more of a curve than that it is trusted, where half of the
        accesses miss; a miss ratio that is nearly 0 or 1 varies less, as a share does.
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
    """Of one tenant and one regime. `anchors` are in the order of their limits."""

    anchors: list[Anchor] = field(default_factory=list)

    def forget(self) -> None:
        """The workload changed: what was measured is not of its curve."""
        self.anchors.clear()

    def take(
        self,
        limit_bytes: int,
        pages: Sequence[int],
        told: float,
        elapsed_s: float,
        half_life_s: float,
        done: Done = NOTHING_DONE,
    ) -> None:
        """An interval: accesses and misses, `pages`, and the miss ratio that the curve tells.

        Where throughput does not count, or is not known, nothing was `done`.
        """
        here = self._at(limit_bytes)
        here.least_bytes = min(here.least_bytes or limit_bytes, limit_bytes)
        here.fade(0.5 ** (elapsed_s / half_life_s))
        if len(self.anchors) > 1:
            for one in self.anchors:
                one.aside_s += 0.0 if one is here else elapsed_s
            self.anchors = [one for one in self.anchors if one is here or one.known_s >= LEAST_S]
        accesses, misses = pages[:2]
        here.accesses += accesses
        here.misses += min(misses, accesses)
        here.told += told * accesses
        here.seconds += elapsed_s
        here.done = here.done.plus(done)

    def _at(self, limit_bytes: int) -> Anchor:
        """The anchor of a limit, which is made when none is near."""
        near = min(self.anchors, key=lambda one: abs(one.limit_bytes - limit_bytes), default=None)
        if near is not None and abs(near.limit_bytes - limit_bytes) <= NEAR_SHARE * limit_bytes:
            return near
        if len(self.anchors) >= ANCHORS_MAX:
            # The least and the greatest bound what is read between: the first memory is often one.
            self.anchors.remove(min(self.anchors[1:-1], key=lambda one: one.known_s))
        found = Anchor(limit_bytes)
        insort(self.anchors, found, key=lambda one: one.limit_bytes)
        return found

    def shifts(self, demand: Demand) -> Shifts:
        """Limits and by how much the curve is off there, rounded to what is worth a correction.

        `demand` is the throughput model as it is now.
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
        # With less memory than the least that was measured, the level alone is known.
        (limit, shift), level = shifts[0], _in_steps(levels[0])
        least = min(anchors[0].least_bytes or limit, limit)
        if shift == level or least <= PAGE_BYTES:
            return shifts
        at_least = ((least, shift),) if least < limit else ()
        return ((least - PAGE_BYTES, level), *at_least, *shifts)


def _in_steps(shift: float) -> float:
    return round(shift / LEAST_CHANGE) * LEAST_CHANGE


def _lower(known: Sequence[Off]) -> list[float]:
    """What a curve is lower by than its level can be off, from the limit on where it was measured.

    It is compared with `PRIOR_S` seconds of no error.
    """
    found, lower = [], 0.0
    for one in known:
        sure = one.seconds / (one.seconds + PRIOR_S * one.spread)
        lower = sure * min(one.off + LEVEL_MOST, 0.0) + (1 - sure) * lower
        found.append(lower)
    return found


def _levels(limits: Sequence[int], known: Sequence[Off]) -> list[float]:
    """By how much the level of the curve is off at each limit, by what is known of all of them.

    A walk may begin anywhere; all that was measured is compared with `PRIOR_S` seconds of no error.
    """
    if len(known) == 1:
        # As of most tenants, which stay where they are: what a walk makes of one limit.
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
    """The variance of the walk per e-fold of memory, by all pairs of limits.

    Of each limit its logarithm, by how much the curve is off there, and the variance of that. A
    pair counts by what it tells of a walk that is slow: its distance over its noise squared.
    """
    beyond = weights = 0.0
    for (low, below, low_noise), (high, above, high_noise) in combinations(seen, 2):
        # The square of the noise may be too large for a number.
        noise, apart = low_noise + high_noise, high - low
        beyond += apart / noise * ((above - below) ** 2 / noise - 1)
        weights += (apart / noise) ** 2
    return max(beyond / weights, WALK_SD_MIN**2) if weights else 0.0


def corrected(miss: float, limit_bytes: int, shifts: Shifts) -> float:
    """A miss ratio that a curve tells of a limit, corrected."""
    return min(max(miss + _shift_at(limit_bytes, shifts), 0.0), 1.0) if shifts else miss


def _shift_at(limit_bytes: int, shifts: Shifts) -> float:
    """Linear in the logarithm of the limit, flat outside."""
    above = bisect_left(shifts, (limit_bytes, -2.0))
    if above == 0:
        return shifts[0][1]
    if above == len(shifts):
        return shifts[-1][1]
    (low, first), (high, last) = shifts[above - 1], shifts[above]
    part = math.log(limit_bytes / low) / math.log(high / low)
    return first + (last - first) * part
