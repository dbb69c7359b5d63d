# SPDX-License-Identifier: Apache-2.0
"""Curves are corrected by measurements at the limits that a tenant has had."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from cachepilot.domain.snapshot import Curves, Demand
from cachepilot.model.calibration import FORGOTTEN_S, PRIOR_S
from cachepilot.model.corrected_curves import Corrections
from cachepilot.model.limit_calibration import (
    ANCHORS_MAX,
    LEAST_CHANGE,
    LEVEL_MOST,
    LEVEL_SD,
    NEAR_SHARE,
    Anchor,
    Done,
    LimitCalibration,
    corrected,
)
from cachepilot.sizes import PAGE_BYTES

MIB = 1 << 20
HALF_LIFE_S = 40.0
DEMAND = Demand(service_us=100.0, accesses_per_op=2.0, error_pct=5.0)
READ_US = 500.0


def learnt(limit_mib: float, measured: float, told: float, seconds: int = 200) -> LimitCalibration:
    found = LimitCalibration()
    learn(found, limit_mib, measured, told, seconds)
    return found


def learn(
    found: LimitCalibration, limit_mib: float, measured: float, told: float, seconds: int
) -> None:
    for _ in range(seconds):
        pages = 10_000, round(measured * 10_000)
        found.take(int(limit_mib * MIB), pages, told, 1.0, HALF_LIFE_S)


def done(ops: float, miss: float) -> Done:
    """Return one second of one thread."""
    return Done(ops, 1e6, ops * READ_US, ops * READ_US * miss)


def ops_at(miss: float) -> float:
    return 1e6 / (DEMAND.service_us + DEMAND.accesses_per_op * miss * READ_US)


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.floats(0.3, 3))
def test_at_its_limit_a_corrected_curve_agrees_with_the_time_of_operations(
    measured: float, told: float, faster: float
) -> None:
    found, ops = LimitCalibration(), faster * ops_at(measured)
    for _ in range(400):
        pages = 10_000, round(measured * 10_000)
        found.take(64 * MIB, pages, told, 1.0, HALF_LIFE_S, done(ops, measured))
    found_miss = corrected(told, 64 * MIB, found.shifts(DEMAND))
    needed = (1e6 / ops - DEMAND.service_us) / (DEMAND.accesses_per_op * READ_US)
    needed = min(max(needed, 0.0), 1.0)
    assert found_miss == pytest.approx(needed, abs=0.1 * abs(needed - told) + LEAST_CHANGE)


def test_throughput_that_a_model_predicts_badly_corrects_less() -> None:
    found = LimitCalibration()
    for limit, faster in ((64, 1.0), (32, 0.6)):
        for _ in range(20):
            pages = 10_000, 3_000
            found.take(limit * MIB, pages, 0.3, 1.0, HALF_LIFE_S, done(faster * ops_at(0.3), 0.3))
    sure, unsure = (
        dict(found.shifts(Demand(100.0, 2.0, error_pct=off)))[32 * MIB] for off in (1.0, 100.0)
    )
    assert 0 <= unsure < sure / 2


def curves(*points: tuple[int, float]) -> Curves:
    sizes, ratios = zip(*points, strict=True)
    bars = np.full((1, len(sizes)), 0.01)
    return Curves(("default",), np.array(sizes) * MIB, np.array([ratios]), bars)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1, 1024))
def test_a_curve_approaches_the_measurement_at_its_limit(
    measured: float, told: float, limit_mib: float
) -> None:
    shifts = learnt(limit_mib, measured, told).shifts(DEMAND)
    prior = PRIOR_S / (PRIOR_S + HALF_LIFE_S)
    found = corrected(told, int(limit_mib * MIB), shifts)
    assert abs(found - measured) <= prior * abs(told - measured) + LEAST_CHANGE + 1e-3


def test_a_few_seconds_count_for_little() -> None:
    short, long = (learnt(64, 0.5, 0.1, seconds).shifts(DEMAND)[0][1] for seconds in (1, 200))
    assert short == pytest.approx(0.4 / (1 + PRIOR_S), abs=0.01) and long > 0.35


def test_a_low_miss_ratio_scatters_less_and_is_believed_sooner() -> None:
    parts = [
        learnt(64, miss, miss / 2, 10).shifts(DEMAND)[0][1] / (miss / 2) for miss in (0.5, 0.06)
    ]
    assert parts == pytest.approx([2 / 3, 0.9], abs=0.05)


def test_a_cliff_just_below_a_limit_is_learnt_beside_what_is_known_of_the_limit() -> None:
    found = learnt(16, 0.05, 0.05)
    learn(found, 15.4, 0.4, 0.06, 60)
    shifts = found.shifts(DEMAND)
    assert corrected(0.06, int(15.4 * MIB), shifts) > 0.3
    assert corrected(0.05, 16 * MIB, shifts) == pytest.approx(0.05, abs=LEAST_CHANGE)


def test_a_cliff_below_its_predicted_size_is_unknown_below_the_measured_limit() -> None:
    """A loop that fits misses nothing. With half of the memory it may miss everything."""
    shifts = learnt(23, 0.0, 1.0).shifts(DEMAND)
    assert corrected(1.0, 23 * MIB, shifts) < 0.05
    assert corrected(1.0, 30 * MIB, shifts) < 0.05
    assert corrected(1.0, 12 * MIB, shifts) > 0.8
    assert corrected(1.0, 23 * MIB - PAGE_BYTES, shifts) > 0.8


@given(st.floats(-0.3, 0.3), st.floats(16, 200))
@example(-0.25, 125.0)
@example(0.25, 127.0)
def test_a_new_limit_keeps_its_prediction_until_it_is_measured(
    off: float, limit_mib: float
) -> None:
    # Nearly the same limit counts as the measured one, with a cliff that was found there.
    assume(abs(limit_mib - 128) > 128 * 2 * NEAR_SHARE or off > -LEVEL_MOST)
    found = learnt(128, 0.5 + off, 0.5)
    before = corrected(0.5, int(limit_mib * MIB), found.shifts(DEMAND))
    learn(found, limit_mib, before, 0.5, 1)
    after = corrected(0.5, int(limit_mib * MIB), found.shifts(DEMAND))
    assert after == pytest.approx(before, abs=2 * LEAST_CHANGE + 0.02 * abs(off))


def test_scatter_at_neighbouring_limits_is_no_slope_of_the_curve() -> None:
    raw, smooth = [], []
    for seed in range(20):
        found, random = LimitCalibration(), np.random.default_rng(seed)
        for limit in (5.0, 5.2, 5.4, 5.7):
            for _ in range(15):
                pages = 60, int(random.binomial(60, 0.4))
                found.take(int(limit * MIB), pages, 0.35, 1.0, HALF_LIFE_S)
        raw.append(np.ptp([one.off(DEMAND).off for one in found.anchors]))
        smooth.append(np.ptp([shift for _, shift in found.shifts(DEMAND)]))
    assert np.mean(raw) > 0.03 and np.mean(smooth) < np.mean(raw) / 3


def test_old_measurements_at_other_limits_do_not_correct_the_limit_in_force() -> None:
    found = learnt(64, 0.6, 0.5)
    found.take(256 * MIB, (10_000, 5_000), 0.5, 20 * FORGOTTEN_S, HALF_LIFE_S)
    assert corrected(0.5, 256 * MIB, found.shifts(DEMAND)) == pytest.approx(0.5, abs=LEAST_CHANGE)


def test_a_limit_that_is_not_in_force_again_is_forgotten_and_breaks_nothing() -> None:
    found = learnt(64, 0.6, 0.5)
    for _ in range(600):
        found.take(256 * MIB, (10_000, 5_000), 0.5, FORGOTTEN_S, HALF_LIFE_S)
        assert found.shifts(DEMAND)
    assert [one.limit_bytes for one in found.anchors] == [256 * MIB]


@pytest.mark.parametrize("seconds", [0.0, 5e-324, 1e-200, 1e-156])
def test_a_stored_limit_that_has_faded_to_nothing_breaks_nothing(seconds: float) -> None:
    found = learnt(256, 0.6, 0.5)
    alone = found.shifts(DEMAND)
    for limit in (64, 128):
        found.anchors.insert(0, Anchor(limit * MIB, seconds=seconds))
    assert found.shifts(DEMAND)[-1] == alone[0]


def test_corrections_are_interpolated_and_constant_beyond_the_limits() -> None:
    found = learnt(128, 0.1, 0.1)
    learn(found, 32, 0.7, 0.3, 200)
    shifts = found.shifts(DEMAND)
    off = dict(shifts)
    low, high = off[32 * MIB], off[128 * MIB]
    assert corrected(0.2, 64 * MIB, shifts) - 0.2 == pytest.approx((low + high) / 2, abs=1e-6)
    assert corrected(0.3, 8 * MIB, shifts) - 0.3 == pytest.approx(low)
    assert corrected(0.05, 512 * MIB, shifts) - 0.05 == pytest.approx(high)


@given(
    st.lists(st.tuples(st.integers(8, 512), st.floats(0, 1), st.floats(0, 1)), max_size=12),
    st.lists(st.floats(0, 1), min_size=4, max_size=4),
)
def test_corrected_curves_are_miss_ratios_and_agree_with_single_points(
    visits: list[tuple[int, float, float]], ratios: list[float]
) -> None:
    found = LimitCalibration()
    for limit, measured, told in visits:
        learn(found, limit, measured, told, 10)
    assert len(found.anchors) <= ANCHORS_MAX
    limits = [one.limit_bytes for one in found.anchors]
    assert limits == sorted(limits)
    before = curves(*zip((16, 64, 128, 400), ratios, strict=True))
    after = Corrections().of(before, found.shifts(DEMAND))
    assert after.miss_ratio.min() >= 0 and after.miss_ratio.max() <= 1
    for size, ratio in zip((16, 64, 128, 400), ratios, strict=True):
        column = after.sizes_bytes.tolist().index(size * MIB)
        told = corrected(ratio, size * MIB, found.shifts(DEMAND))
        assert float(after.miss_ratio[0, column]) == pytest.approx(told, abs=1e-5)


def test_curves_that_are_right_are_left_as_they_are() -> None:
    before = curves((16, 0.5), (64, 0.2))
    assert Corrections().of(before, learnt(64, 0.2, 0.2).shifts(DEMAND)) is before


def test_limits_that_are_near_are_one_and_the_one_with_the_least_time_goes() -> None:
    found = learnt(100, 0.3, 0.2)
    learn(found, 100.9, 0.3, 0.2, 5)
    assert len(found.anchors) == 1
    for limit in range(200, 200 + 100 * ANCHORS_MAX, 100):
        learn(found, limit, 0.3, 0.2, 3)
    assert len(found.anchors) == ANCHORS_MAX
    assert found.anchors[0].limit_bytes == 100 * MIB
    found.forget()
    assert found.shifts(DEMAND) == ()


@pytest.mark.parametrize("less_pages", [0, 1, 2, 50])
def test_a_limit_that_counts_as_a_larger_one_is_known_as_well(less_pages: int) -> None:
    found, limit_bytes = LimitCalibration(), 10_000 * PAGE_BYTES
    found.take(limit_bytes, (10_000, 1_000), 0.6, 1.0, 60.0)
    limit_bytes -= less_pages * PAGE_BYTES
    for _ in range(300):
        found.take(limit_bytes, (10_000, 1_000), 0.6, 1.0, 60.0)
    assert len(found.anchors) == 1
    shifts = found.shifts(DEMAND)
    assert corrected(0.6, limit_bytes, shifts) < 0.2
    assert corrected(0.6, limit_bytes - PAGE_BYTES, shifts) > 0.4


def under(policy: str, found: LimitCalibration) -> LimitCalibration:
    found.follow(policy)
    return found


def test_what_another_policy_showed_soon_counts_for_little() -> None:
    """The curve of the earlier policy was right, and that of the present one is off by 0.1."""
    found, kept = (under("default", learnt(64, 0.3, 0.3)) for _ in range(2))
    found.follow("lru")
    for one in (found, kept):
        learn(one, 64, 0.5, 0.4, seconds=10)
    now, then = (corrected(0.4, 64 * MIB, one.shifts(DEMAND)) for one in (found, kept))
    assert then < 0.43
    assert 0.44 < now < 0.5
    before = found.shifts(DEMAND)
    assert under("lru", found).shifts(DEMAND) == before


def test_a_short_measurement_of_another_policy_counts_as_it_is() -> None:
    found = under("default", learnt(64, 0.5, 0.4, seconds=3))
    before = found.shifts(DEMAND)
    assert under("lru", found).shifts(DEMAND) == before


def test_what_was_known_before_an_undone_change_counts_again() -> None:
    found = under("default", learnt(64, 0.5, 0.4))
    learn(found, 128, 0.2, 0.3, seconds=100)
    before = found.shifts(DEMAND)
    learn(under("lru", found), 128, 0.3, 0.3, seconds=10)
    assert found.shifts(DEMAND) != before
    after = under("default", found).shifts(DEMAND)
    assert np.array(after) == pytest.approx(np.array(before))
    assert max(one.aside_s for one in found.anchors) == 110


def test_a_stored_calibration_without_a_policy_is_of_the_present_one() -> None:
    found = learnt(64, 0.5, 0.4)
    before = found.shifts(DEMAND)
    assert under("lru", found).shifts(DEMAND) == before


def test_the_error_of_a_calibration_falls_with_measurement_and_rises_with_the_distance() -> None:
    unknown = LimitCalibration().error_at(64 * MIB, DEMAND)
    short, long = (learnt(64, 0.5, 0.4, seconds) for seconds in (5, 200))
    here = long.error_at(64 * MIB, DEMAND)
    assert here.level < short.error_at(64 * MIB, DEMAND).level < unknown.level == LEVEL_SD
    assert here.level < long.error_at(512 * MIB, DEMAND).level < LEVEL_SD
    assert here.between(64 * MIB, 64 * MIB) == 0.0
    assert 0.0 < here.between(64 * MIB, 96 * MIB) < here.between(64 * MIB, 16 * MIB)
