# SPDX-License-Identifier: Apache-2.0
"""The intervals to which a throughput model is fitted."""

import numpy as np
import pytest

from cachepilot.domain.snapshot import Demand
from cachepilot.node.collector import FittedDemands
from cachepilot.sense.counters import Sample, Window

READ_US = 10_000.0
SERVICE_US = 700.0
THREADS = 2.0


def seen(
    demands: FittedDemands, miss: float, waits: float, is_filling: bool, is_fitted: bool = True
) -> Demand:
    """Take an interval with this miss ratio, in which the share `waits` of misses is waited for."""
    ops = THREADS * 1e6 / (SERVICE_US + waits * miss * READ_US)
    sample = Sample(0.0, 1.0, ops, miss, int(ops), None, READ_US)
    window = Window(ops, miss, ops * waits * miss, 1.0, None)
    found = demands.demand("/kv", sample, window, 500.0, THREADS, is_filling)
    if is_fitted:
        demands.refit()
    return found


def test_first_accesses_that_readahead_serves_are_no_service() -> None:
    demands = FittedDemands()
    for second in range(15):
        seen(demands, 0.9 - 0.045 * second, 0.3 + 0.04 * second, is_filling=True)
    for _ in range(8):
        found = seen(demands, 0.22, 1.0, is_filling=False)
    assert found.service_us == pytest.approx(SERVICE_US, rel=0.05)
    assert found.accesses_per_op == pytest.approx(1.0, rel=0.05)


def with_reads(reads_per_miss: float, waits: float) -> Demand:
    """Return the demand of a tenant that reads and waits for so many pages of those it misses."""
    demands = FittedDemands()
    random = np.random.default_rng(3)
    for _ in range(100):
        miss = float(random.uniform(0.05, 0.6))
        ops = THREADS * 1e6 / (SERVICE_US + waits * 2.0 * miss * READ_US)
        sample = Sample(0.0, 1.0, ops, miss, int(ops), None, READ_US)
        window = Window(ops, miss, ops * 2.0 * miss * reads_per_miss, 2.0, None)
        found = demands.demand("/kv", sample, window, 500.0, THREADS, False)
        demands.refit()
    return found


def test_reads_are_counted_as_measured_also_if_an_operation_waits_for_few_of_them() -> None:
    found = with_reads(reads_per_miss=0.8, waits=0.3)
    assert found.accesses_per_op == pytest.approx(0.6, rel=0.1)
    assert found.reads_per_op == pytest.approx(1.6, rel=1e-6)


def test_direct_io_counts_as_far_as_operations_wait_for_it() -> None:
    assert with_reads(reads_per_miss=5.0, waits=0.9).reads_per_op == pytest.approx(2.0)
    found = with_reads(reads_per_miss=5.0, waits=4.0)
    assert found.reads_per_op == pytest.approx(found.accesses_per_op)
    assert found.reads_per_op == pytest.approx(8.0, rel=0.1)


def test_reads_follow_the_unit_of_operations() -> None:
    """A new indicator counts thousands of what was one operation, and nothing misses any more."""
    demands = FittedDemands()
    seen(demands, 0.5, 0.6, is_filling=False)
    sample = Sample(0.0, 1.0, 1e6, 0.0, 10**6, None, READ_US)
    found = demands.demand("/kv", sample, Window(1e6, 0.0, 0.0, 1e-3, None), 500.0, THREADS, False)
    assert found.reads_per_op == pytest.approx(0.6e-3)


def test_a_forgotten_tenant_is_not_fitted_any_more() -> None:
    demands = FittedDemands()
    seen(demands, 0.22, 1.0, is_filling=False, is_fitted=False)
    demands.forget("/kv")
    demands.refit()
    assert seen(demands, 0.22, 1.0, is_filling=False).error_pct is None
