# SPDX-License-Identifier: Apache-2.0
"""The throughput model: its fixed point at the device, and its fit to measurements."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from experiments.control_loop.instances import snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from cachepilot.domain.snapshot import Demand, Device
from cachepilot.model.fitting import SERVICE_SHARE_MIN, Observation, OnlineFit, predicted_ops
from cachepilot.model.throughput import ModelKind, throughput_model

TENANTS = snapshot(3, tenants=5, policies=1).tenants
ratios = st.lists(st.floats(0, 1), min_size=5, max_size=5).map(np.array)


@settings(max_examples=60)
@given(ratios, st.floats(1, 1e7), st.floats(1, 1e5))
def test_the_device_serves_its_capacity_and_reads_wait_only_beyond_it(
    miss: np.ndarray, capacity: float, cost_us: float
) -> None:
    model = throughput_model(TENANTS, Device(capacity, cost_us), ModelKind.SERVICE)
    wait = model.wait_us(miss)
    read = float(model.device_iops(miss, wait).sum())
    assert read <= capacity * (1 + 1e-6)
    if wait > 0:
        assert read == pytest.approx(capacity, rel=1e-6)
        assert float(model.device_iops(miss, 0.0).sum()) > capacity
        longer = model.wait_us(np.minimum(1, miss * 1.1))
        assert longer >= wait * (1 - 1e-6)


@settings(max_examples=60)
@given(ratios, st.floats(1, 1e12), st.floats(1e-3, 1e11))
def test_reads_wait_below_the_capacity_as_the_devices_formula_says(
    miss: np.ndarray, capacity: float, queueing_us: float
) -> None:
    model = throughput_model(TENANTS, Device(capacity, 100.0, queueing_us), ModelKind.SERVICE)
    wait = model.wait_us(miss)
    used = float(model.device_iops(miss, wait).sum()) / capacity
    assert used < 1 + 1e-6
    # Near the capacity, the wait is what is left of a difference.
    assert wait * (1 - used) == pytest.approx(queueing_us * used, rel=1e-3, abs=1e-6 * (wait + 1))
    without = throughput_model(TENANTS, Device(capacity, 100.0), ModelKind.SERVICE)
    assert wait >= without.wait_us(miss) * (1 - 1e-6)
    columns = np.stack((miss, miss / 2, 0 * miss), axis=1)
    found = model.waits_us(columns)
    assert found[0] == pytest.approx(wait, rel=1e-6, abs=1e-9)
    assert found[0] >= found[1] * (1 - 1e-6) and found[2] == 0


@pytest.mark.parametrize("queueing_us", [0.0, 40.0])
def test_the_price_of_a_read_is_what_it_costs_the_others(queueing_us: float) -> None:
    device = Device(3000, 100, queueing_us)
    model = throughput_model(TENANTS, device, ModelKind.SERVICE)
    miss = np.linspace(0.2, 0.9, 5)
    weight = np.arange(1.0, 6.0)
    wait = model.wait_us(miss)
    served = float(model.served_iops(np.array(wait))[0])
    # One read more per second of somebody else lengthens the wait until it is served, too.
    low, high = wait, 2 * wait + 1
    for _ in range(60):
        then = (low + high) / 2
        is_served = model.device_iops(miss, then).sum() + 1 <= model.served_iops(np.array(then))[0]
        low, high = (low, then) if is_served else (then, high)
    assert float(model.device_iops(miss, wait).sum()) == pytest.approx(served, rel=1e-6)
    lost = weight @ (model.ops(miss, wait) - model.ops(miss, then))
    assert wait > 0
    assert model.read_price(miss, wait, weight) == pytest.approx(lost, rel=1e-2)
    assert model.read_price(miss, 0.0, weight) == 0


def test_the_device_serves_the_reads_that_operations_cause_not_those_they_wait_for() -> None:
    miss, wait = np.linspace(0.2, 0.9, 5), 200.0
    more = [
        replace(one, demand=replace(one.demand, reads_per_op=3 * one.demand.accesses_per_op))
        for one in TENANTS
    ]
    device = Device(3000, 100)
    waited, caused = (throughput_model(some, device, ModelKind.SERVICE) for some in (TENANTS, more))
    assert caused.ops(miss, wait) == pytest.approx(waited.ops(miss, wait))
    assert caused.device_iops(miss, wait) == pytest.approx(3 * waited.device_iops(miss, wait))
    assert caused.wait_us(miss) > waited.wait_us(miss)


def test_iops_over_miss_ratio_is_what_its_name_says() -> None:
    model = throughput_model(TENANTS, Device(1, 1), ModelKind.IOPS_OVER_MISS_RATIO)
    ops = model.ops(np.full(5, 0.5), 0.0)
    for tenant, found in zip(TENANTS, ops, strict=True):
        per_s = tenant.indicators.device_iops / tenant.demand.accesses_per_op
        assert found == pytest.approx(per_s / 0.5, rel=0.01)
    assert model.wait_us(np.ones(5)) == 0


def _observations(truth: Demand, count: int, noise: float, seed: int) -> list[Observation]:
    random = np.random.default_rng(seed)
    found = []
    for miss in random.uniform(0.02, 0.9, count):
        exact = predicted_ops(truth, Observation(1.0, miss, 150.0))
        found.append(Observation(exact * np.exp(random.normal(0, noise)), miss, 150.0))
    return found


def observe(online: OnlineFit, seen: Sequence[Observation], prior: Demand) -> Demand:
    """Return the demand after these intervals, which are fitted at once."""
    for one in seen:
        online.take(one)
    online.refit(prior)
    return online.demand


def fit(seen: Sequence[Observation], prior: Demand) -> Demand:
    return observe(OnlineFit(prior), seen, prior)


@settings(max_examples=25)
@given(st.floats(20, 500), st.floats(0.5, 20), st.integers(1, 16), st.integers(0, 1000))
def test_known_parameters_are_recovered_under_noise(
    service_us: float, accesses: float, concurrency: int, seed: int
) -> None:
    truth = Demand(service_us, accesses, concurrency)
    prior = Demand(100, accesses * 2, concurrency)
    found = fit(_observations(truth, 120, 0.03, seed), prior)
    for miss in (0.05, 0.3, 0.8):
        at = Observation(1.0, miss, 150.0)
        assert predicted_ops(found, at) == pytest.approx(predicted_ops(truth, at), rel=0.06)
    # If an operation is mostly work and rarely a miss, 3% of noise hides much of the accesses.
    assert found.accesses_per_op == pytest.approx(accesses, rel=0.4)


def test_outliers_do_not_carry_the_fit_away() -> None:
    truth = Demand(80, 4, 2)
    seen = _observations(truth, 100, 0.02, seed=5)
    seen[::10] = [Observation(one.throughput_ops * 20, one.miss_ratio, 150) for one in seen[::10]]
    found = fit(seen, Demand(100, 6, 2))
    assert found.service_us == pytest.approx(80, rel=0.3)
    assert found.accesses_per_op == pytest.approx(4, rel=0.15)


def test_a_tenant_that_always_missed_is_not_predicted_to_be_infinitely_fast_without_misses() -> (
    None
):
    """Its operations wait for reads all the time that they take, so no service is left."""
    truth = Demand(1e-3, 4)
    seen = _observations(truth, 100, 0.02, seed=1)
    fastest = max(one.throughput_ops for one in seen)
    most = predicted_ops(fit(seen, truth), Observation(1.0, 0.0, 150.0))
    assert fastest < most <= fastest / SERVICE_SHARE_MIN * (1 + 1e-6)


def test_without_change_of_the_miss_ratio_the_measured_accesses_decide() -> None:
    truth = Demand(80, 4)
    at = Observation(1.0, 0.3, 150)
    seen = [Observation(predicted_ops(truth, at), 0.3, 150.0)] * 20
    found = fit(seen, Demand(10, 4))
    assert found.accesses_per_op == pytest.approx(4, rel=0.02)
    assert found.service_us == pytest.approx(80, rel=0.05)
    assert fit([], truth) == truth
    # In half of the window an operation takes twice as long, at the same miss ratio.
    slower = Observation(1e6 / (160 + 4 * 0.3 * 150), 0.3, 150.0)
    found = fit([*seen * 5, *[slower] * 20], Demand(10, 4))
    assert found.service_us == pytest.approx(160, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_the_load_of_neighbours_does_not_change_the_fitted_service_time(seed: int) -> None:
    """A search misses everything. It waits for 0.3 reads of some 20 ms, which neighbours vary."""
    random = np.random.default_rng(seed)
    found = []
    for miss in random.choice([0.85, 1.0], 60):
        time_us = (600 + 0.3 * miss * 18_000) * random.uniform(0.8, 1.25)
        found.append(Observation(2e6 / time_us, miss, 20_000 * random.uniform(0.6, 1.4)))
    fitted = fit(found, Demand(100.0, 0.3, 2.0))
    hits = predicted_ops(fitted, Observation(300.0, 0.1, 20_000))
    assert fitted.accesses_per_op == pytest.approx(0.3, rel=0.1)
    assert 1000 < hits < 3500
    assert fitted.service_us >= 0.02 * 2e6 / max(one.throughput_ops for one in found)


def test_reads_that_overlap_do_not_contradict_what_is_measured() -> None:
    """One read brings sixteen pages. Waiting for each page would take five times as long."""
    seen = [Observation(10_000.0, 0.3, 100.0)] * 40
    found = fit(seen, Demand(50.0, 16.0))
    assert predicted_ops(found, seen[0]) == pytest.approx(10_000, rel=0.01)
    assert found.accesses_per_op < 4


def test_one_odd_interval_does_not_change_the_fitted_service_time() -> None:
    random = np.random.default_rng(0)
    truth = Demand(90.0, 1.0)
    misses = 0.1 * (1 + random.normal(0, 0.03, 60))
    noise = np.exp(random.normal(0, 0.03, 60))
    seen = [
        Observation(predicted_ops(truth, Observation(1.0, miss, 100.0)) * times, miss, 100.0)
        for miss, times in zip(misses.tolist(), noise.tolist(), strict=True)
    ]
    seen.insert(30, Observation(500.0, 0.9, 100.0))
    found = fit(seen, truth)
    assert found.accesses_per_op == pytest.approx(1.0, rel=0.1)
    assert found.service_us == pytest.approx(90, rel=0.1)


def test_the_fit_does_not_jump_as_the_miss_ratio_varies_more() -> None:
    """The miss ratio changes hardly at all, then enough. The measured accesses are far too many."""
    accesses = []
    for spread in np.linspace(0.05, 0.4, 71):
        misses = 0.3 * (1 + spread * np.sin(np.arange(60)))
        truth = Demand(80.0, 1.0)
        seen = [
            Observation(predicted_ops(truth, Observation(1.0, miss, 150.0)), miss, 150.0)
            for miss in misses.tolist()
        ]
        found = fit(seen, Demand(80.0, 2.5))
        accesses.append(found.accesses_per_op)
        here = Observation(1.0, 0.3, 150.0)
        assert predicted_ops(found, here) == pytest.approx(predicted_ops(truth, here), rel=0.05)
    assert accesses[0] == pytest.approx(2.5, rel=0.01)
    assert accesses[-1] < 1.5
    assert max(abs(np.diff(accesses))) < 0.3


def test_the_error_is_that_of_predictions_made_before_the_interval() -> None:
    prior = Demand(100, 3)
    online = OnlineFit(prior)
    seen = _observations(Demand(60, 5), 40, 0.02, seed=1)
    assert observe(online, seen[:1], prior).error_pct is None
    for one in seen[1:]:
        before = observe(online, [one], prior)
    steady = before.error_pct
    assert steady is not None and 0 < steady < 15
    assert not online.take(Observation(0.0, 0.5, 150)) and online.demand == before
    changed = Observation(seen[-1].throughput_ops / 10, seen[-1].miss_ratio, 150)
    after = observe(online, [changed], prior).error_pct
    assert after is not None and after > steady + 5


@pytest.mark.parametrize("miss_ratio", [-0.1, float("nan")])
@pytest.mark.parametrize("miss_cost_us", [-400.0, float("inf")])
def test_an_observation_that_cannot_be_changes_nothing(
    miss_ratio: float, miss_cost_us: float
) -> None:
    online = OnlineFit(Demand(100, 1))
    before = observe(online, [Observation(1000.0, 0.25, 150.0)], Demand(100, 1))
    cannot_be = Observation(1000.0, miss_ratio, 150.0), Observation(1000.0, 0.25, miss_cost_us)
    assert observe(online, cannot_be, Demand(100, 1)) == before


def test_the_error_of_the_wait_is_what_more_misses_do_to_it() -> None:
    """One tenant may miss a little more; the wait at the fixed point then rises by so much."""
    model = throughput_model(TENANTS, Device(100.0, 100.0), ModelKind.SERVICE)
    miss, off = np.full(5, 0.5), np.array([1e-4, 0.0, 0.0, 0.0, 0.0])
    wait = model.wait_us(miss)
    assert wait > 0
    rise = model.wait_us(miss + off) - wait
    assert model.wait_error_us(miss, off, wait) == pytest.approx(rise, rel=0.02)
    assert model.wait_error_us(miss, np.zeros(5), wait) == 0.0
    assert model.wait_error_us(miss, off, 0.0) == 0.0
