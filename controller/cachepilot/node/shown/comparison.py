# SPDX-License-Identifier: Apache-2.0
"""The present throughput of a node's tenants against the kernel's default at their first memory.

The default is predicted for all tenants together, each under the default policy at its first
memory, because they share a device and its queue depends on the reads of all of them. The model
gives the ratio of the present throughput to that of the default. The measured throughput is divided
by this ratio, so that an error of the model's level cancels out.

A tenant that has the default setting now is predicted, too, if its reads would wait for another
time with all tenants under the default.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, isclose, sqrt

import numpy as np

from cachepilot.domain.past.baseline import Baseline
from cachepilot.domain.past.comparison import (
    MeasuredReading,
    PredictedReading,
    Ratio,
    Source,
    TenantComparison,
)
from cachepilot.domain.snapshot import Curves, FloatArray
from cachepilot.model.throughput import ModelKind, throughput_model
from cachepilot.node.shown.baselines import Baselines
from cachepilot.node.shown.report import Report
from cachepilot.readable import number
from cachepilot.sense.collect import Seen
from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.sense.counters import WINDOW
from cachepilot.sense.curves.wire_curves import value_at
from cachepilot.sizes import PAGE_BYTES, human_bytes

ERRORS = 2.0
"""Standard errors on either side of a ratio of two measurements."""
ROUNDING = 1e-6
"""A ratio is 1 within this difference, which is more than that of the wait's iterations."""


@dataclass(frozen=True)
class _Default:
    """The miss ratio under the default at the first memory, and the half-width of its error bar.

    `why_not` says why it is not known, if so; any miss ratio is possible then. If it `is_present`,
    the tenant has that setting now, so that the miss ratio is measured.
    """

    miss_ratio: float
    error: float
    why_not: str = ""
    is_present: bool = False

    def source(self, ratios: Sequence[float]) -> Source:
        """The source of the throughput under the default, given the ratio to it and its bounds.

        Other tenants' settings change the device's wait. Only if they do not change this tenant's
        throughput is the default's throughput the measured one.
        """
        is_same = all(isclose(one, 1.0, abs_tol=ROUNDING) for one in ratios)
        return Source.MEASURED if self.is_present and is_same else Source.PREDICTED


def _default_of(seen: Seen) -> _Default:
    tenant, first = seen.tenant, seen.tenant.first_bytes
    now = tenant.indicators.miss_ratio
    if first <= 0:
        return _Default(now, 1.0, "its first memory is not known")
    is_first = abs(tenant.limit_bytes - first) < PAGE_BYTES or not seen.wire.limit_bytes
    if tenant.policy == DEFAULT and is_first:
        return _Default(now, 0.0, is_present=True)
    curves = tenant.curves
    if not tenant.trust.trusted or curves is None:
        return _Default(now, 1.0, tenant.trust.reason or "there are no curves yet")
    if DEFAULT not in curves.policies:
        return _Default(now, 1.0, f"there is no curve of {DEFAULT}")
    return _Default(*_at(curves, first))


def _at(curves: Curves, limit_bytes: int) -> tuple[float, float]:
    """The miss ratio of the default at a limit, and the half-width of its error bar."""
    row, sizes = curves.policies.index(DEFAULT), curves.sizes_bytes.tolist()
    miss = value_at(sizes, curves.miss_ratio[row].tolist(), 1.0, limit_bytes)
    bars = curves.error_bar
    error = 0.0 if bars is None else value_at(sizes, bars[row].tolist(), 0.0, limit_bytes)
    return miss, error


def compare(
    node: str, report: Report, baselines: Baselines, interval_s: float, stale: str
) -> list[TenantComparison]:
    """Return the comparison of every tenant, by cgroup; `stale` says why there are no readings."""
    seen = list(report.collected.seen.values())
    if not seen:
        return []
    defaults = [_default_of(one) for one in seen]
    predicted = _predicted(report, seen, defaults)
    found = []
    for one, known, ratios in zip(seen, defaults, predicted.T.tolist(), strict=True):
        low, middle, high = ratios
        source = known.source(ratios)
        cgroup = one.tenant.cgroup
        objective = report.objectives.of(cgroup)
        why_not = _why_not(one, known, stale)
        now = None if stale else _now(one, report.collected.time_s, interval_s)
        before = baselines.of(cgroup)
        told = default = None
        if now is not None and not why_not:
            ops = now.throughput_ops
            default = PredictedReading(
                ops / middle, ops / high, ops / low,
                known.miss_ratio, DEFAULT, one.tenant.first_bytes, source,
            )  # fmt: skip
            told = Ratio(middle, low, high, source)
        found.append(
            TenantComparison(
                node=node,
                cgroup=cgroup,
                weight=float(objective.weight),
                has_slo=objective.has_slo,
                now=now,
                default=default,
                before=_before(before),
                versus_default=told,
                versus_before=_versus_before(now, before) if one.is_window_full else None,
                why=_why(now, default, why_not),
            )
        )
    return found


def _predicted(report: Report, seen: Sequence[Seen], defaults: Sequence[_Default]) -> FloatArray:
    """Predicted throughput now over that of the default, shape (3, N): low, likely and high."""
    snapshot = report.collected.snapshot
    model = throughput_model([one.tenant for one in seen], snapshot.device, ModelKind.SERVICE)
    now = np.array([one.tenant.indicators.miss_ratio for one in seen], np.float64)
    then = np.array([one.miss_ratio for one in defaults], np.float64)
    error = np.array([one.error for one in defaults], np.float64)
    wait_us = model.wait_us(then)
    ops_now, off_us = model.ops(now, model.wait_us(now)), model.wait_error_us(then, error, wait_us)
    likely, fewer, more, waits_less, waits_more = (
        ops_now / model.ops(np.clip(miss, 0.0, 1.0), max(0.0, wait))
        for miss, wait in (
            (then, wait_us),
            (then - error, wait_us),
            (then + error, wait_us),
            (then, wait_us - off_us),
            (then, wait_us + off_us),
        )
    )
    # The model's error counts only where the throughput changes.
    off = np.array([(one.tenant.demand.error_pct or 0.0) / 100 for one in seen], np.float64)
    off = np.where((then == now) & np.isclose(likely, 1.0, rtol=0, atol=ROUNDING), 0.0, off)
    down = [np.log(likely / fewer), off, np.log(likely / waits_less)]
    up = [np.log(more / likely), off, np.log(waits_more / likely)]
    low = likely * np.exp(-np.linalg.norm(down, axis=0))
    high = likely * np.exp(np.linalg.norm(up, axis=0))
    found: FloatArray = np.stack([low, likely, high])
    return found


def _why_not(seen: Seen, known: _Default, stale: str) -> str:
    if stale:
        return stale
    window = seen.window
    if window is None or window.ops <= 0:
        return "nothing was done in the last intervals"
    # Misses of a page cache that fills are first accesses, which no setting avoids.
    return known.why_not or ("" if seen.is_window_full else "its page cache was still filling")


def _now(seen: Seen, time_s: float, interval_s: float) -> MeasuredReading | None:
    window, tenant = seen.window, seen.tenant
    if window is None:
        return None
    accessed = seen.sample is not None
    return MeasuredReading(
        window.ops,
        window.miss_ratio if accessed else None,
        tenant.policy,
        tenant.limit_bytes,
        time_s - WINDOW * interval_s,
        time_s,
    )


def _before(known: Baseline | None) -> MeasuredReading | None:
    if known is None or known.ops is None:
        return None
    return MeasuredReading(
        known.ops,
        known.miss_ratio,
        known.policy,
        known.limit_bytes,
        known.until_s - known.seconds,
        known.until_s,
    )


def _versus_before(now: MeasuredReading | None, known: Baseline | None) -> Ratio | None:
    """The present throughput over that of the baseline, both measured at different times.

    The error is the scatter of single intervals.
    """
    before = None if known is None else known.ops
    if now is None or known is None or not before or now.throughput_ops <= 0:
        return None
    ratio = now.throughput_ops / before
    error = ERRORS * known.scatter * hypot(1 / sqrt(known.intervals), 1 / sqrt(WINDOW))
    return Ratio(ratio, ratio / (1 + error), ratio * (1 + error), Source.MEASURED)


def _why(now: MeasuredReading | None, default: PredictedReading | None, why_not: str) -> str:
    if now is None or default is None:
        return f"not known: {why_not or 'nothing is measured yet'}"
    if default.source is Source.MEASURED:
        return (
            f"{number(now.throughput_ops)} op/s are measured, under the kernel's default at its"
            f" first memory of {human_bytes(default.limit_bytes)}"
        )
    span = f"{number(default.low_ops)} to {number(default.high_ops)}"
    return (
        f"{number(now.throughput_ops)} op/s are measured; the kernel's default at its first memory"
        f" of {human_bytes(default.limit_bytes)} is predicted to give"
        f" {number(default.throughput_ops)} ({span}) with all tenants under it"
    )
