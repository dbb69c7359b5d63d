# SPDX-License-Identifier: Apache-2.0
"""Calibration of a curve by the limits that a tenant has had: measured against told.

A curve may misplace a cliff, miss accesses that are not sampled, or lag behind its workload; most
of the error of a sample is one of its level, the same at all sizes. So by how much a curve is off
is taken for a random walk over the logarithm of the limit, of which each limit that was in force
is a noisy observation, and the walk is smoothed (Rauch, Tung and Striebel 1965): limits that were
measured for long stand for themselves, those of a few seconds for what their neighbours are off.
How fast it walks is estimated by what limits differ beyond their noise (the method of moments of
DerSimonian and Laird 1986). Between two limits the mean of a walk is in proportion to their
distance, and beyond the last it stays.

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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cachepilot.domain.snapshot import Curves, Demand, FloatArray, IntArray
from cachepilot.model.calibration import FORGOTTEN_S, PRIOR_S

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

    def waits(self, demand: Demand) -> float:
        """What an access missed, beyond what it did, for a model to say the time that was taken."""
        all_us = demand.accesses_per_op * self.read_us
        if all_us <= 0:
            return 0.0
        model_us = demand.service_us * self.ops + demand.accesses_per_op * self.missed_us
        return (self.time_us - model_us) / all_us

    def variance(self, demand: Demand) -> float:
        """Of `waits` of one interval, by how far the model's predictions of intervals are off."""
        all_us = demand.accesses_per_op * self.read_us
        off = TIME_ERROR if demand.error_pct is None else demand.error_pct / 100
        return (off * self.time_us / all_us) ** 2 if all_us > 0 else 0.0


NOTHING_DONE = Done()


@dataclass
class Anchor:
    """A limit that was in force: accesses and misses, the misses that the curve told of, and ops.

    All fade, and for `aside_s` more slowly since it is in force no more. `seconds` is the time that
    they stood for then.
    """

    limit_bytes: int
    accesses: float = 0.0
    misses: float = 0.0
    told: float = 0.0
    seconds: float = 0.0
    done: Done = NOTHING_DONE
    aside_s: float = 0.0

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
        self.done = Done(*(share * one for one in self.done))

    def off(self, demand: Demand) -> float:
        """Measured minus told miss ratio, what operations waited for beyond that counted as missed.

        No less than if nothing were missed, and no more than if all were.
        """
        found = (self.misses - self.told) / max(self.accesses, 1.0) + self.done.waits(demand)
        told = self.told / max(self.accesses, 1.0)
        return min(max(found, -told), 1.0 - told)

    def variance(self, demand: Demand) -> float:
        """Of `off`: that of a share of so many accesses, and of a workload that varies by itself.

        By the latter `PRIOR_S` seconds tell no more of a curve than that it is trusted, where half
        of the accesses miss; a miss ratio that is nearly 0 or 1 varies less, as a share does.
        """
        left = self.left
        seconds = left * self.seconds
        by_time = PRIOR_S * LEVEL_SD**2 / seconds
        found = self.spread * (0.25 / (left * self.accesses + 2) + by_time)
        by_throughput = self.done.variance(demand)
        return found + (PRIOR_S / seconds * by_throughput if by_throughput else 0.0)

    @property
    def spread(self) -> float:
        """The variance of one access, of that where half of them miss."""
        missed = (self.misses + 1) / (self.accesses + 2)
        return 4 * missed * (1 - missed)


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
        here.fade(0.5 ** (elapsed_s / half_life_s))
        for one in self.anchors:
            one.aside_s += 0.0 if one is here else elapsed_s
        self.anchors = [one for one in self.anchors if one is here or one.known_s >= LEAST_S]
        accesses, misses = pages[:2]
        here.accesses += accesses
        here.misses += min(misses, accesses)
        here.told += told * accesses
        here.seconds += elapsed_s
        here.done = Done(*(a + b for a, b in zip(here.done, done, strict=True)))

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

    def shifts(self, demand: Demand) -> tuple[tuple[int, float], ...]:
        """Limits and by how much the curve is off there, rounded to what is worth a correction.

        `demand` is the throughput model as it is now.
        """
        known = [one for one in self.anchors if one.known_s > 0]
        return tuple(
            (one.limit_bytes, round(shift / LEAST_CHANGE) * LEAST_CHANGE)
            for one, shift in zip(known, _smoothed(known, demand), strict=True)
        )


def _smoothed(known: Sequence[Anchor], demand: Demand) -> list[float]:
    """By how much the curve is off at each limit, by what is known of all of them.

    A walk may begin anywhere; all that was measured is compared with `PRIOR_S` seconds of no error.
    """
    seen = [(math.log(one.limit_bytes), one.off(demand), one.variance(demand)) for one in known]
    per_e_fold = _walk(seen)
    before, after, means = [], [], []
    mean, variance = 0.0, 1.0
    last = seen[0][0] if seen else 0.0
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
    seconds = sum(one.known_s for one in known)
    prior_s = PRIOR_S * max((one.spread for one in known), default=1.0)
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


def corrected(miss: float, limit_bytes: int, shifts: tuple[tuple[int, float], ...]) -> float:
    """A miss ratio that a curve tells of a limit, corrected."""
    return min(max(miss + _shift_at(limit_bytes, shifts), 0.0), 1.0) if shifts else miss


def _shift_at(limit_bytes: int, shifts: tuple[tuple[int, float], ...]) -> float:
    """Linear in the logarithm of the limit, flat outside."""
    above = bisect_left(shifts, (limit_bytes, -2.0))
    if above == 0:
        return shifts[0][1]
    if above == len(shifts):
        return shifts[-1][1]
    (low, first), (high, last) = shifts[above - 1], shifts[above]
    part = math.log(limit_bytes / low) / math.log(high / low)
    return first + (last - first) * part


def corrected_curves(
    curves: Curves, shifts: tuple[tuple[int, float], ...], before: Curves | None = None
) -> Curves:
    """Every curve of a tenant, corrected; the limits of `shifts` become points of them.

    Most of what is wrong is wrong of all policies alike: the sample, or accesses that are not seen.
    `before` are the same curves corrected at the same limits by other shifts: sizes and errors are
    theirs.
    """
    if all(shift == 0 for _, shift in shifts):
        return curves
    known = curves.sizes_bytes
    if before is None:
        # Of so few a set is joined in a fraction of the time that arrays take.
        points = {*known.tolist(), *(limit for limit, _ in shifts if limit > 0)}
        sizes = np.array(sorted(points), dtype=np.int64)
    else:
        sizes = before.sizes_bytes
    logs = np.log(np.array([limit for limit, _ in shifts], dtype=np.float64))
    shift = np.interp(np.log(sizes.astype(np.float64)), logs, [one for _, one in shifts])
    between = _Between(known, sizes)
    rows = between.read(curves.miss_ratio, 1.0)
    if before is None:
        bars = None if curves.error_bar is None else _single(between.read(curves.error_bar, 0.0))
        steps = None if curves.step_bar is None else _single(between.steps(curves.step_bar))
    else:
        bars, steps = before.error_bar, before.step_bar
    ratios = np.minimum(np.maximum(rows + shift, 0.0), 1.0)
    for one in (sizes, ratios, bars, steps):
        if one is not None:
            # What is read-only is not copied.
            one.setflags(write=False)
    return Curves(curves.policies, sizes, ratios, bars, steps)


def _single(errors: FloatArray) -> npt.NDArray[Any]:
    """In single precision, as they came: an error needs no more."""
    return errors.astype(np.float32)


class _Between:
    """Where sizes lie among the known ones, for all rows at once."""

    def __init__(self, known: IntArray, sizes: IntArray) -> None:
        points = np.concatenate(([0], known))
        # Flat after the last: as if of it.
        inside = np.minimum(sizes, points[-1])
        self._above = np.searchsorted(points, inside)
        low, high = points[self._above - 1], points[self._above]
        self._part = (inside - low) / (high - low)

    def read(self, rows: FloatArray, start: float) -> FloatArray:
        """Rows over the known sizes read at the sizes; linear, from `start` at no memory."""
        told = np.full((rows.shape[0], rows.shape[1] + 1), start)
        told[:, 1:] = rows
        low, high = told[:, self._above - 1], told[:, self._above]
        found: FloatArray = low + (high - low) * self._part
        return found

    def steps(self, rows: FloatArray) -> FloatArray:
        """Errors of steps from size to size; of a part of a step that part of its square."""
        variance = self.read(np.cumsum(rows * rows, axis=1, dtype=np.float64), 0.0)
        found: FloatArray = np.sqrt(np.diff(variance, axis=1, prepend=0.0).clip(0.0))
        return found
