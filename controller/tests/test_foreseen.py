# SPDX-License-Identifier: Apache-2.0
"""The throughput foreseen of a setting: what is measured, and what makes its bounds wider."""

from dataclasses import replace

import pytest

from cachepilot.model.foreseen import BAR_SIGMAS, Known, Predicted
from cachepilot.model.limit_calibration import CalibrationError
from cachepilot.model.measured_intervals import MeasuredIntervals, Scattered
from cachepilot.model.throughput_error import ABSOLUTE_TO_SD

SERVICE_US, READ_US = 50.0, 500.0
MEASURED = Known(Scattered(9571.0, 0.002, 40), CalibrationError(0.02, 0.0004))


def ops(miss: float) -> float:
    """Return the operations per second of four threads."""
    return 4e6 / (SERVICE_US + READ_US * min(1.0, max(0.0, miss)))


def of(there: float, step: float = 0.0) -> Predicted:
    return Predicted(ops, ops, 0.75, there, step, (0.0, 0.0), error_pct=5.0)


def test_the_present_setting_is_foreseen_as_it_is_measured() -> None:
    found = of(0.75).foreseen(MEASURED)
    assert found.ops == pytest.approx(9571.0)
    single = BAR_SIGMAS * 0.002 * 9571.0
    assert single < found.below < 1.05 * single and found.below == pytest.approx(found.above)
    assert found.chance_of(9571.0) == pytest.approx(0.5)
    assert found.chance_of(9571.0 - single) == pytest.approx(0.975, abs=0.01)


def test_without_measured_intervals_the_models_error_replaces_their_scatter() -> None:
    found = of(0.75).foreseen(replace(MEASURED, intervals=None))
    assert found.ops == ops(0.75)
    assert (
        found.below == found.above == pytest.approx(BAR_SIGMAS * 0.05 * ABSOLUTE_TO_SD * ops(0.75))
    )


def test_another_setting_is_foreseen_from_the_measured_one_with_wider_bounds() -> None:
    near, far = of(0.70).foreseen(MEASURED), of(0.30).foreseen(MEASURED)
    assert far.ops == pytest.approx(9571.0 * ops(0.30) / ops(0.75))
    assert far.below / far.ops > near.below / near.ops > of(0.75).foreseen(MEASURED).below / 9571.0
    assert of(0.30, step=0.1).foreseen(MEASURED).below > far.below
    waits = replace(of(0.30), by_wait=(4000.0, 0.0)).foreseen(MEASURED)
    assert waits.below > far.below and waits.above == far.above
    worse = replace(MEASURED, calibration=CalibrationError(0.05, 0.0004))
    assert of(0.30).foreseen(worse).below > far.below


def test_a_wide_error_lowers_the_chance_although_the_bound_ends_at_zero() -> None:
    wide = replace(of(0.30), by_wait=(50_000.0, 0.0)).foreseen(MEASURED)
    wider = replace(of(0.30), by_wait=(200_000.0, 0.0)).foreseen(MEASURED)
    assert wide.low_ops == wider.low_ops == 0.0
    assert 0.5 < wider.chance_of(1000.0) < wide.chance_of(1000.0) < 0.9


def test_intervals_of_another_setting_do_not_count() -> None:
    intervals = MeasuredIntervals()
    for second in range(7):
        intervals.take(("default", 1), 100.0, second, 1.0)
    intervals.take(("default", 1), None, 7, 1.0)
    assert intervals.scattered is None
    intervals.take(("default", 1), 108.0, 8, 1.0)
    assert intervals.scattered is not None and intervals.scattered.mean_ops == 101.0
    intervals.take(("lfu", 1), 200.0, 9, 1.0)
    assert intervals.scattered is None


def test_intervals_without_operations_count_as_0() -> None:
    intervals, setting = MeasuredIntervals(), ("default", 1)
    for second in range(40):
        intervals.take(setting, 100.0, second, 1.0)
    for second in range(40, 60):
        intervals.take(setting, 0.0, second, 1.0)
    assert intervals.scattered is not None and intervals.scattered.mean_ops == 50.0
    for second in range(60, 80):
        intervals.take(setting, 0.0, second, 1.0)
    assert intervals.scattered == Scattered(0.0, 0.0, 40)
    found = of(0.30, step=0.1).foreseen(replace(MEASURED, intervals=intervals.scattered))
    assert (found.low_ops, found.ops, found.above) == (0.0, 0.0, 0.0)
    assert found.chance_of(1.0) == 0.0


@pytest.mark.parametrize("interval_s", [1.0, 5.0])
def test_intervals_expire_if_nothing_is_measured_any_more(interval_s: float) -> None:
    intervals, setting = MeasuredIntervals(), ("default", 1)
    for count in range(40):
        intervals.take(setting, 100.0, count * interval_s, interval_s)
    for count in range(40, 79):
        intervals.take(setting, None, count * interval_s, interval_s)
    assert intervals.scattered is not None
    for count in range(79, 81):
        intervals.take(setting, None, count * interval_s, interval_s)
    assert intervals.scattered is None
    # A counter that is published every few intervals is measured all the time.
    for count in range(100, 200, 10):
        intervals.take(setting, 100.0, count * interval_s, interval_s)
    assert intervals.scattered == Scattered(100.0, 0.0, 10)
    intervals.take(setting, None, 3600 * interval_s, interval_s)
    assert intervals.scattered is None
