# SPDX-License-Identifier: Apache-2.0
"""The device is learned: how long reads wait, by the share of its capacity that is used."""

from collections.abc import Iterable

import numpy as np
import pytest

from cachepilot.domain.snapshot import Device
from cachepilot.sense.device import HALF_LIFE_S, DeviceModel
from cachepilot.v1 import session_pb2 as wire

CAPACITY, IDLE_US, QUEUEING_US = 5000.0, 400.0, 80.0
MOST_US = 1e6 / CAPACITY


def told(intervals: Iterable[tuple[float, float]], model: DeviceModel | None = None) -> Device:
    """Take in seconds with so many reads, each of which took so long; return the last device."""
    model = model or DeviceModel()
    reads = time_us = 0.0
    device = wire.Device(capacity_iops=CAPACITY, idle_read_us=IDLE_US)
    found = model.take(device, 0.0)
    for second, (iops, read_us) in enumerate(intervals, 1):
        reads, time_us = reads + iops, time_us + iops * read_us
        device.reads_total, device.read_time_us_total = round(reads), round(time_us)
        found = model.take(device, float(second))
    return found


def waiting(used: float) -> tuple[float, float]:
    return used * CAPACITY, IDLE_US + QUEUEING_US * used / (1 - used)


def test_waits_below_the_capacity_show_how_they_grow() -> None:
    for uses in ([0.5] * 9, [0.1, 0.9, 0.5] * 9):
        assert told(map(waiting, uses)).queueing_us == pytest.approx(QUEUEING_US, rel=1e-3)


def test_a_device_on_which_nothing_waits_has_no_queueing() -> None:
    assert told([(1000.0, IDLE_US)] * 9).queueing_us == 0
    assert told([(1000.0, IDLE_US - 50)] * 9).queueing_us == 0
    assert told([]).queueing_us == 0


def test_a_full_device_says_nothing_of_waits_below_its_capacity() -> None:
    """Reads take ten times as long as an idle one, because that is what the tenants ask for."""
    found = told([*map(waiting, [0.5] * 9), *[(CAPACITY * 1.01, 10 * IDLE_US)] * 100_000])
    assert found.queueing_us == pytest.approx(QUEUEING_US, rel=1e-3)
    assert told([(CAPACITY, 10 * IDLE_US)] * 9).queueing_us == 0


def test_one_slow_interval_with_few_reads_hardly_counts() -> None:
    found = told([*map(waiting, [0.5] * 60), (20.0, 2e6), *map(waiting, [0.5] * 5)])
    assert found.queueing_us <= MOST_US
    later = told([*map(waiting, [0.5] * 60), (20.0, 5e4), *map(waiting, [0.5] * 5)])
    assert later.queueing_us == pytest.approx(QUEUEING_US, rel=0.3)


def test_reads_that_scatter_at_a_low_load_predict_no_long_waits_at_a_high_one() -> None:
    random = np.random.default_rng(1)
    scattered = [(300.0, float(IDLE_US * random.normal(1, 0.2))) for _ in range(300)]
    assert told(scattered).queueing_us <= MOST_US


def test_nothing_queues_on_a_device_of_unknown_capacity() -> None:
    model, device = DeviceModel(), wire.Device()
    for second in range(20):
        found = model.take(device, float(second))
        device.reads_total += 1000
        device.read_time_us_total += 100_000 + 1000 * second
    assert found.queueing_us == 0


def test_few_reads_say_nothing_and_what_is_known_fades() -> None:
    model = DeviceModel()
    known = told(map(waiting, [0.5] * 9), model)
    assert told([(5.0, 9000.0)] * 9, model).queueing_us == pytest.approx(known.queueing_us)
    model = DeviceModel()
    told(map(waiting, [0.5] * 200), model)
    later = told([(0.5 * CAPACITY, IDLE_US)] * int(HALF_LIFE_S), model)
    assert later.queueing_us == pytest.approx(QUEUEING_US / 2, rel=0.1)
