# SPDX-License-Identifier: Apache-2.0
"""The comparison with the default at the first memory, and with before, for a known truth."""

import time
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from worlds import SIZES, fooled, hungry, liar, looping, memory_change, moves, sated, until, world

from cachepilot.api.app import create_app
from cachepilot.domain.objectives.objective import Mode, Objective
from cachepilot.domain.past.baseline import BASELINE_S, Baseline
from cachepilot.domain.past.comparison import (
    Ratio,
    Source,
    TenantComparison,
    Verdict,
    mean_ratio,
    summed,
)
from cachepilot.sense.counters import WINDOW
from cachepilot.sizes import PAGE_BYTES


def compared(here: World) -> dict[str, TenantComparison]:
    return {one.cgroup: one for one in here.service.past.compared()}


def test_the_gain_agrees_with_a_run_under_the_default(tmp_path: Path) -> None:
    here, alone = world(tmp_path, looping()), looping()
    here.run(60)
    (tmp_path / "default").mkdir()
    plant = Plant([alone], 128 * MIB, SIZES)
    untouched = World(tmp_path / "default", plant, [Objective("*", mode=Mode.OBSERVE)])
    untouched.run(60)
    truth = untouched.service.tenants()[0].throughput_ops
    one = compared(here)["/scan"]
    assert one.default is not None and one.versus_default is not None and one.now is not None
    assert one.default.throughput_ops == pytest.approx(truth, rel=0.03)
    report = here.loop.report
    window = None if report is None else report.collected.seen["/scan"].window
    # The mean covers the intervals that it names; the tenant's row is of the last interval only.
    assert window is not None and one.now.throughput_ops == window.ops
    assert one.now.until_s - one.now.since_s == WINDOW
    assert (one.now.source, one.default.source) == (Source.MEASURED, Source.PREDICTED)
    assert one.versus_default.source is Source.PREDICTED and one.verdict is Verdict.GAINS
    assert "are measured" in one.why and "is predicted" in one.why


def test_a_tenant_that_gives_memory_that_it_needs_pays(tmp_path: Path) -> None:
    here = world(tmp_path, hungry(), liar())
    until(here, lambda: moves(here))
    until(here, lambda: compared(here)["/liar"].verdict is Verdict.PAYS, 30)
    found = here.service.past.comparison()
    assert [one.cgroup for one in found.pays] == ["/liar"] and found.fleet.pay == 1
    until(here, lambda: memory_change(here) is None)
    here.run(30)
    one = compared(here)["/liar"]
    # With the first memory and the default again, nothing is left to be predicted.
    assert one.versus_default is not None and one.verdict is Verdict.SAME
    assert one.versus_default.low == pytest.approx(1) == one.versus_default.high


def test_a_page_cache_that_was_filling_is_not_compared(tmp_path: Path) -> None:
    cold = looping()
    cold.room_bytes = 120.0 * MIB
    untouched = [Objective("*", mode=Mode.OBSERVE)]
    here = World(tmp_path, Plant([cold], 128 * MIB, SIZES), untouched)
    was_filling = []
    for _ in range(60):
        here.run(1)
        report, one = here.loop.report, compared(here)["/scan"]
        assert report is not None
        was_filling.append(report.collected.seen["/scan"].is_filling)
        if any(was_filling[-WINDOW:]):
            assert one.versus_default is None and one.versus_before is None
            assert one.verdict is Verdict.UNKNOWN and "not known" in one.why
    assert was_filling[1] and not was_filling[-1]
    assert one.now is not None and one.default is not None and one.versus_default is not None
    # It has the default's setting, so that the default is measured and not predicted.
    assert one.default.throughput_ops == one.now.throughput_ops
    assert (one.default.source, one.versus_default.source) == (Source.MEASURED, Source.MEASURED)
    assert "predicted" not in one.why


def test_the_default_of_an_untouched_tenant_is_predicted_if_a_neighbour_relieves_the_device(
    tmp_path: Path,
) -> None:
    def still() -> PlantTenant:
        return PlantTenant("/still", {"default": linear(300 * MIB)}, 128 * MIB)

    def beside(name: str, neighbour: Mode, capacity_iops: float = 8000) -> World:
        (tmp_path / name).mkdir()
        plant = Plant([still(), looping()], 256 * MIB, SIZES, capacity_iops=capacity_iops)
        stays = Objective("/still", mode=Mode.OBSERVE)
        here = World(tmp_path / name, plant, [stays, Objective("/scan", mode=neighbour)])
        here.run(90)
        return here

    untouched = compared(beside("default", Mode.OBSERVE))["/still"]
    assert untouched.now is not None and untouched.versus_default is not None
    assert untouched.versus_default.source is Source.MEASURED
    here = beside("changed", Mode.AUTO)
    one = compared(here)["/still"]
    assert one.default is not None and one.versus_default is not None
    assert (one.default.policy, one.default.limit_bytes) == ("default", 128 * MIB)
    assert (one.default.source, one.versus_default.source) == (Source.PREDICTED, Source.PREDICTED)
    assert one.versus_default.low < one.versus_default.ratio < one.versus_default.high
    assert one.default.low_ops <= untouched.now.throughput_ops <= one.default.high_ops
    assert "is predicted" in one.why
    mean = summed("plant", [one]).versus_default
    assert mean is not None and mean.source is Source.PREDICTED
    # What the neighbour would miss under the default is not known any more: it may be anything.
    here.plant.of("/scan").distrust = "too few samples"
    here.run(2)
    unknown = compared(here)["/still"].versus_default
    assert unknown is not None and unknown.source is Source.PREDICTED
    assert unknown.high - unknown.low > 2 * (one.versus_default.high - one.versus_default.low)
    # Without a queue at the device no tenant's throughput depends on the others.
    free = compared(beside("free", Mode.AUTO, 1e9))["/still"]
    assert free.versus_default is not None and free.default is not None
    assert free.versus_default.source is Source.MEASURED
    assert free.versus_default.low == pytest.approx(1) == free.versus_default.high


def test_the_baseline_is_the_first_measurement_and_survives_a_restart(tmp_path: Path) -> None:
    tenant = looping()
    # A change that costs a quarter of the page cache begins after enough intervals to compare.
    tenant.reread_pages = 32 * MIB / PAGE_BYTES
    here = world(tmp_path, tenant)
    until(here, lambda: here.plant.swaps)
    here.run(40)
    first = compared(here)["/scan"].before
    assert first is not None and first.policy == "default" and first.source is Source.MEASURED
    assert first.until_s <= here.plant.swaps[0][0]
    assert first.throughput_ops == pytest.approx(7288, rel=0.05)
    here.restart()
    here.run(20)
    again = compared(here)["/scan"]
    assert again.before == first
    assert again.versus_before is not None and again.versus_before.source is Source.MEASURED
    assert again.versus_before.low > 2


def test_the_baseline_is_bounded_and_forgotten_with_its_tenant(tmp_path: Path) -> None:
    plant = Plant([fooled()], 128 * MIB, SIZES)
    here = World(tmp_path, plant, [Objective("*", mode=Mode.OBSERVE)])
    here.run(int(BASELINE_S) + 40)
    known = here.loop._keeper.baselines.of("/scan")
    assert known is not None and known.closed and known.seconds <= BASELINE_S + 1
    here.loop._keeper.baselines.keep_only([])
    assert compared(here)["/scan"].before is None


def test_another_cgroup_of_the_same_name_starts_again(tmp_path: Path) -> None:
    here = world(tmp_path, looping())
    here.run(20)
    first = here.loop._keeper.baselines.of("/scan")
    here.plant.of("/scan").cgroup_id += 1000
    here.run(3)
    later = here.loop._keeper.baselines.of("/scan")
    assert first is not None and later is not None and later.since_s > first.since_s


def test_an_unknown_comparison_gives_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world(tmp_path, looping())
    here.run(10)
    monkeypatch.setattr(here.loop.freshness, "_clock", lambda: time.monotonic() + 60)
    (offline,) = here.service.past.compared()
    assert offline.now is None and offline.verdict is Verdict.UNKNOWN
    assert "stale: no snapshot" in offline.why
    monkeypatch.undo()
    here.plant.of("/scan").distrust = "too few samples"
    here.run(2)
    one = compared(here)["/scan"]
    assert one.verdict is Verdict.UNKNOWN and "too few samples" in one.why
    assert one.now is not None
    assert here.service.past.comparison().fleet.unknown == 1


def test_the_routes_answer_in_parts(tmp_path: Path) -> None:
    here = world(tmp_path, looping(), sated())
    here.run(40)
    http = TestClient(create_app(here.service), base_url="http://localhost")
    told = http.get("/api/v1/comparison").json()
    assert told["fleet"]["tenants"] == 2 and [one["node"] for one in told["nodes"]] == ["plant"]
    assert told["gains"][0]["cgroup"] == "/scan"
    rows = http.get("/api/v1/comparison/tenants?limit=1&offset=1")
    assert rows.headers["X-Total-Count"] == "2" and len(rows.json()) == 1
    (one,) = http.get("/api/v1/comparison/tenants?verdict=gains").json()
    assert one["cgroup"] == "/scan" and one["default"]["source"] == "predicted"
    assert http.get("/api/v1/comparison?node=nowhere").status_code == 404


RATIOS = st.lists(
    st.tuples(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.5, 1)), min_size=1, max_size=9
)


@given(RATIOS)
def test_a_mean_lies_between_its_ratios_and_within_its_range(
    told: list[tuple[float, float, float]],
) -> None:
    known = [
        (weight, Ratio(ratio, ratio * off, ratio / off, Source.PREDICTED))
        for weight, ratio, off in told
    ]
    found = mean_ratio(known)
    assert found is not None and found.tenants == len(told)
    assert found.low <= found.ratio * (1 + 1e-9) and found.ratio <= found.high * (1 + 1e-9)
    values = [one.ratio for _, one in known]
    assert min(values) * (1 - 1e-9) <= found.ratio <= max(values) * (1 + 1e-9)


def test_two_that_gain_and_lose_the_same_share_cancel_out() -> None:
    pair = [(1.0, Ratio(one, one, one, Source.MEASURED)) for one in (2.0, 0.5)]
    found = mean_ratio(pair)
    assert found is not None and found.ratio == pytest.approx(1)
    assert mean_ratio([]) is None and summed("n", []).versus_default is None


def test_a_baseline_without_readings_says_nothing() -> None:
    none = Baseline("/a", "1", "default", 0, 0.0, 0.0)
    assert none.ops is None and none.miss_ratio is None and none.scatter == 1
