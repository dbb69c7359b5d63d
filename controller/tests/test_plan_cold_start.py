# SPDX-License-Identifier: Apache-2.0
"""Cold starts: filling a page cache step by step takes the predicted time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachepilot.domain.snapshot import Demand, Device, FloatArray, Indicators, Tenant
from cachepilot.model.throughput import ModelKind, Throughput, throughput_model
from cachepilot.plan.consolidation.cold_start import WARM, cold_start
from cachepilot.plan.consolidation.least.needs import TOLERANCE
from cachepilot.sizes import PAGE_BYTES

MIB = 1 << 20


def _tenant(name: str, service_us: float, accesses: float) -> Tenant:
    demand = Demand(service_us=service_us, accesses_per_op=accesses)
    return Tenant(name, "lru", 64 * MIB, 0, None, demand, Indicators(100.0, 0.5, 100.0))


def _model(capacity_iops: float, service_us: float = 20.0) -> Throughput:
    tenants = [_tenant("/a", service_us, 4.0), _tenant("/b", 50.0, 2.0)]
    return throughput_model(tenants, Device(capacity_iops, 200.0), ModelKind.SERVICE)


def _filled_in_s(
    model: Throughput, warm: FloatArray, sizes: FloatArray, ratios: FloatArray
) -> tuple[float, int]:
    """Read 64 pages at a time until the throughput is nearly the final one.

    Returns the seconds and the pages.
    """
    wanted = float(model.ops(warm, model.wait_us(warm))[0]) * (1 - TOLERANCE)
    pages, seconds, size = 0, 0.0, float(sizes[0])
    while size < sizes[-1]:
        miss = warm.copy()
        miss[0] = np.interp(size, sizes, ratios)
        wait = model.wait_us(miss)
        if float(model.ops(miss, model.wait_us(warm))[0]) >= wanted:
            break
        seconds += 64 / float(model.device_iops(miss, wait)[0])
        pages += 64
        size += 64 * PAGE_BYTES
    return seconds, pages


@settings(max_examples=20)
@given(
    st.lists(st.floats(0.02, 1.0), min_size=2, max_size=6),
    st.sampled_from((1e9, 5_000.0, 900.0)),
    st.floats(0.0, 0.5),
)
def test_the_predicted_time_equals_that_of_filling_page_by_page(
    falls: list[float], capacity: float, other: float
) -> None:
    ratios = np.sort(np.array(falls))[::-1]
    sizes = np.linspace(4 * MIB, 64 * MIB, ratios.size)
    model = _model(capacity)
    warm = np.array([ratios[-1], other])
    seconds, pages = _filled_in_s(model, warm, sizes, ratios)
    found = cold_start(model, warm, 0, sizes, ratios)
    assert found.pages == pytest.approx(pages, rel=0.02, abs=80)
    assert found.seconds == pytest.approx(seconds, rel=0.1, abs=0.5)


def test_a_busy_device_makes_it_longer_and_no_page_cache_takes_nothing() -> None:
    sizes, ratios = np.array([0.0, 64.0 * MIB]), np.array([1.0, 0.1])
    warm = np.array([0.1, 0.5])
    free, busy = (cold_start(_model(iops), warm, 0, sizes, ratios) for iops in (1e9, 900.0))
    assert free.pages > 0
    assert busy.seconds > 2 * free.seconds
    assert cold_start(_model(1e9), warm, 0, np.array([MIB, MIB]), np.array([0.1, 0.1])) is WARM
    idle = replace(_model(1e9), base=np.array([1e9, 50.0]))
    assert cold_start(idle, warm, 0, sizes, ratios) is WARM, "it hardly reads"
