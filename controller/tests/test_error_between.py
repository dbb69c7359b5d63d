# SPDX-License-Identifier: Apache-2.0
"""The error of a difference between two limits of one curve."""

import math

import numpy as np
import pytest

from cachepilot.sense.curves.wire_curves import Measured, from_wire, shifted
from cachepilot.sense.validate import ProtocolError, check_snapshot
from cachepilot.v1 import session_pb2 as wire

MIB = 1 << 20

SIZES = [16 * MIB, 32 * MIB, 64 * MIB]
STEPS = [0.2, 0.03, 0.04]


def told(steps: list[float], bars: float = 0.1) -> wire.Curves:
    return wire.Curves(
        generation=1,
        policies=["default", "lfu"],
        sizes_bytes=SIZES,
        miss_ratio=[0.8, 0.5, 0.2, 0.7, 0.4, 0.1],
        error_bar=[bars] * 6,
        step_bar=steps,
    )


@pytest.fixture
def measured() -> Measured:
    return from_wire(told([0.5] * 3 + STEPS))


def test_the_squares_of_steps_add_up(measured: Measured) -> None:
    assert measured.error_between("lfu", 16 * MIB, 32 * MIB) == pytest.approx(0.03)
    assert measured.error_between("lfu", 16 * MIB, 64 * MIB) == pytest.approx(0.05)
    assert measured.error_between("lfu", 64 * MIB, 16 * MIB) == pytest.approx(0.05)
    assert measured.error_between("lfu", 32 * MIB, 32 * MIB) == 0.0
    assert measured.error_between("lfu", 64 * MIB, 99 * MIB) == 0.0


def test_a_part_of_a_step_counts_that_part_of_its_variance(measured: Measured) -> None:
    quarter = measured.error_between("lfu", 32 * MIB, 40 * MIB)
    assert quarter == pytest.approx(math.sqrt(0.04**2 / 4))
    both = measured.error_between("lfu", 24 * MIB, 40 * MIB)
    assert both == pytest.approx(math.sqrt(0.03**2 / 2 + 0.04**2 / 4))


def test_the_error_never_exceeds_that_of_two_independent_values(measured: Measured) -> None:
    apart = math.hypot(0.1, 0.1)
    assert measured.error_between("default", 16 * MIB, 64 * MIB) == pytest.approx(apart)
    silent = from_wire(told([]))
    assert silent.curves.step_bar is None
    for policy in ("default", "lfu"):
        assert silent.error_between(policy, 16 * MIB, 64 * MIB) == pytest.approx(apart)
    assert measured.error_between("mru", 16 * MIB, 64 * MIB) == 1.0


def test_the_error_is_the_same_on_a_shifted_curve(measured: Measured) -> None:
    for other in (0, 30 * MIB):
        moved = shifted(measured, other, {"lfu"})
        assert moved is not None
        for low, high in ((16, 32), (20, 60), (32, 64)):
            expected = measured.error_between("lfu", low * MIB, high * MIB)
            limits = low * MIB + other, high * MIB + other
            assert moved.error_between("lfu", *limits) == pytest.approx(expected)
    silent = shifted(from_wire(told([])), 30 * MIB, {"lfu"})
    assert silent is not None and silent.curves.step_bar is None


@pytest.mark.parametrize("steps", [[0.1] * 5, [0.1] * 5 + [-0.1], [0.1] * 5 + [math.nan]])
def test_steps_that_contradict_the_curve_are_refused(steps: list[float]) -> None:
    def snapshot(curves: wire.Curves) -> wire.Snapshot:
        tenant = wire.Tenant(cgroup="/a", policy="default", curves=curves)
        return wire.Snapshot(sequence=1, budget_bytes=1 << 30, tenants=[tenant])

    check_snapshot(snapshot(told([0.1] * 6)), 0)
    check_snapshot(snapshot(told([])), 0)
    with pytest.raises(ProtocolError, match="step_bar"):
        check_snapshot(snapshot(told(steps)), 0)


def test_steps_are_part_of_a_curve() -> None:
    one, other = from_wire(told([0.1] * 6)).curves, from_wire(told([0.2] * 6)).curves
    assert one == from_wire(told([0.1] * 6)).curves and one != other
    assert one.step_bar is not None and not one.step_bar.flags.writeable
    assert np.allclose(one.step_bar, 0.1)
