# SPDX-License-Identifier: Apache-2.0
"""Time series that survive the controller: packed, stored in parts, read by time, bounded."""

import math
from pathlib import Path

import numpy as np
import pytest
from experiments.control_loop.world import World
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from worlds import looping, sated, world

from cachepilot.api.app import create_app
from cachepilot.domain.past.series import EVERY_INTERVAL, KEPT_S, MINUTES, TENS, SeriesChunk
from cachepilot.domain.units import DAY_S
from cachepilot.node.series import node_series
from cachepilot.node.series.node_series import SERIES_CYCLES
from cachepilot.node.series.packing import packed, unpacked
from cachepilot.node.series.reading import Range, Series, read_series, step_of
from cachepilot.node.series.rings import decoded, encoded
from cachepilot.store import series as series_module
from cachepilot.store.store import Store


def read(here: World, asked: Range | None = None, cgroup: str = "/scan") -> Series:
    now_s = here.plant.time_s
    asked = asked or Range(now_s - 800, now_s, 2000)
    return read_series(here.store, here.loop.series, "plant", cgroup, asked, 1.0, now_s)


def known(found: Series) -> dict[float, float | None]:
    return dict(zip(found.time_s, found.columns["throughput_ops"], strict=True))


def test_a_kill_loses_at_most_the_last_minute_of_series(tmp_path: Path) -> None:
    here = world(tmp_path, looping(), sated())
    here.run(150)
    before = known(read(here))
    assert len(before) == 150
    here.restart()
    here.run(5)
    after = known(read(here))
    kept = {time_s: ops for time_s, ops in before.items() if time_s in after}
    assert len(kept) >= 150 - SERIES_CYCLES
    assert kept == {time_s: after[time_s] for time_s in kept}


def test_a_stop_loses_no_series(tmp_path: Path) -> None:
    here = world(tmp_path, looping())
    here.run(47)
    before = read(here)
    here.loop.end()
    here.restart()
    here.run(1)
    after = read(here)
    assert after.time_s[:47] == before.time_s
    assert after.policy[:47] == before.policy
    for name, column in before.columns.items():
        assert after.columns[name][:47] == column
    assert set(after.policy) == {"default", "mru"}


def test_an_outage_is_one_point_of_nothing(tmp_path: Path) -> None:
    here = world(tmp_path, looping())
    here.run(20)
    here.loop.end()
    here.plant.time_s += 200
    here.restart()
    here.run(20)
    found = read(here)
    (gap,) = [at for at, ops in enumerate(found.columns["current_bytes"]) if ops is None]
    assert found.time_s == sorted(found.time_s)
    assert found.time_s[gap] - found.time_s[gap - 1] > 60


def test_coarser_steps_are_means_of_finer_ones(tmp_path: Path) -> None:
    here = world(tmp_path, looping())
    here.run(200)
    fine, now_s = known(read(here)), here.plant.time_s
    tens = read(here, Range(now_s - 150, now_s, 40))
    assert tens.step_s == TENS and 10 <= len(tens.time_s) <= 16
    (time_s, ops) = list(known(tens).items())[5]
    some = [one for at, one in fine.items() if time_s - 10 < at <= time_s and one is not None]
    assert ops == pytest.approx(sum(some) / len(some), rel=2e-3)
    assert read(here, Range(now_s - 2 * DAY_S, now_s, 2000)).step_s == MINUTES


@given(st.floats(10, 8 * DAY_S), st.floats(1, 8 * DAY_S), st.integers(2, 2000))
def test_the_step_is_the_finest_that_was_kept_and_fits(
    ago_s: float, span_s: float, points: int
) -> None:
    now_s = 1e9
    asked = Range(now_s - ago_s, now_s - ago_s + span_s, points)
    step = step_of(asked, now_s, 1.0)
    finer = [one for one in KEPT_S if one < step]
    for one in finer:
        assert ago_s > KEPT_S[one] - 1 or (asked.until_s - asked.since_s) / (one or 1.0) > points
    if step != MINUTES:
        assert ago_s <= KEPT_S[step] + 1 and span_s / (step or 1.0) <= points + 1


@given(st.lists(st.floats(0, 2.0**40, width=32), min_size=1, max_size=30), st.floats(0, 2e9))
def test_a_chunk_is_read_as_it_was_packed(values: list[float], begun_s: float) -> None:
    codes = encoded(np.array([values, values]).T)
    times = begun_s + np.arange(len(values), dtype=np.float64)
    policies = np.array([at % 2 for at in range(len(values))], np.uint16)
    chunk = packed("/a", TENS, ["default", "lirs"], times, policies, codes)
    found = unpacked(chunk, 2)
    assert found is not None and chunk.points == len(values)
    assert found[0] == pytest.approx(times.tolist(), abs=0.01)
    assert found[1] == [("default", "lirs")[one] for one in policies.tolist()]
    assert np.array_equal(found[2], decoded(codes), equal_nan=True)


@pytest.mark.parametrize("data", [b"", b"\x02abc", b"\x01abc", b"\x01x\x9c\x03\0\0\0\0\x01"])
def test_a_chunk_that_cannot_be_read_is_left_out(data: bytes) -> None:
    assert unpacked(SeriesChunk("/a", TENS, 0.0, 1.0, 1, data), 2) is None


def test_a_store_that_cannot_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world(tmp_path, sated())

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(here.store, "save_series", full)
    for _ in range(3):
        here.loop._keeper.keep_series(here.loop.series)
        here.run(1)
    monkeypatch.undo()
    here.loop.end()
    here.restart()
    here.run(1)
    assert len(read(here, cgroup="/sated").time_s) == 4


def test_the_last_minute_of_a_removed_tenant_is_stored(tmp_path: Path) -> None:
    here = world(tmp_path, looping(), sated())
    here.run(25)
    before = read(here)
    gone = here.plant.tenants.pop(0)
    here.run(3)
    here.restart()
    here.run(1)
    assert before.time_s and read(here).time_s == before.time_s
    here.plant.tenants.insert(0, gone)
    here.run(5)
    assert len(read(here).columns["current_bytes"]) == 25 + 5
    gone.cgroup_id += 1000
    here.run(2)
    here.restart()
    here.run(1)
    assert len(read(here).time_s) >= 25 + 5 + 1


@pytest.mark.parametrize("most", [1, 100])
def test_series_of_removed_tenants_wait_for_the_store_and_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    here = world(tmp_path, looping(), sated())
    here.run(15)

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(node_series, "LEFT_MAX", most)
        broken.setattr(here.store, "save_series", full)
        here.plant.tenants.pop(0)
        here.run(2)
        assert 1 <= len(here.loop.series._left) <= most
    here.run(1)
    assert not here.loop.series._left
    tens = here.store.series("plant", "/scan", TENS, 0.0, 1e12)
    assert sum(one.points for one in tens) == 1


def test_twenty_seconds_are_shown_in_a_range_of_days(tmp_path: Path) -> None:
    here = world(tmp_path, looping())
    here.run(20)
    now_s = here.plant.time_s
    found = read(here, Range(now_s - 6 * DAY_S, now_s, 2000))
    assert len(found.time_s) >= 2 and found.step_s < MINUTES


def test_the_stored_series_of_a_silent_node_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world(tmp_path, looping())
    here.run(200)
    here.loop.end()
    wall_s = here.store.now_s() + 2 * 3600
    here.store.close()
    here.store = Store(here.path, clock=lambda: wall_s)
    here.begin()
    http = TestClient(create_app(here.service), base_url="http://localhost")
    told = http.get("/api/v1/tenants/series?cgroup=/scan&node=plant").json()
    assert told["time_s"] and told["step_s"] == TENS


def chunk(step: int, begun_s: float, cgroup: str = "/a") -> SeriesChunk:
    return SeriesChunk(cgroup, step, begun_s, begun_s + 9, 10, b"x")


def test_each_step_is_kept_for_its_time(tmp_path: Path) -> None:
    now = [1e6]
    store = Store(tmp_path / "c.db", clock=lambda: now[0])
    store.save_series("n", [chunk(step, 1.0) for step in KEPT_S])
    for step, kept_s in KEPT_S.items():
        now[0] = 1e6 + kept_s - 1
        store.prune()
        assert store.series("n", "/a", step, 0, 1e9) != []
        now[0] += 2
        store.prune()
        assert store.series("n", "/a", step, 0, 1e9) == []


def test_the_oldest_chunks_beyond_the_bound_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1e6]
    store = Store(tmp_path / "c.db", clock=lambda: now[0])
    for at in range(10):
        now[0] += 1
        store.save_series("n", [chunk(MINUTES, float(100 * at))])
    monkeypatch.setattr(series_module, "CHUNKS_MAX", 4)
    store.prune()
    begun = [one.begun_s for one in store.series("n", "/a", MINUTES, 0, 1e9)]
    assert begun == [600.0, 700.0, 800.0, 900.0]


def test_a_chunk_that_grew_takes_the_place_of_its_begin(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db")
    store.save_series("n", [chunk(TENS, 100.0)])
    store.save_series("n", [SeriesChunk("/a", TENS, 100.0, 150.0, 20, b"y")])
    (found,) = store.series("n", "/a", TENS, 140.0, 200.0)
    assert found.points == 20
    assert store.series("n", "/a", TENS, 151.0, 200.0) == []
    assert store.series("n", "/b", TENS, 0.0, 200.0) == store.series("m", "/a", TENS, 0, 200) == []


def test_the_store_is_small(tmp_path: Path) -> None:
    here = world(tmp_path, looping(), sated())
    here.run(3 * SERIES_CYCLES)
    here.loop.end()
    every = here.store.series("plant", "/scan", EVERY_INTERVAL, 0.0, 1e12)
    assert sum(one.points for one in every) == 3 * SERIES_CYCLES
    assert sum(len(one.data) for one in every) < 30 * 3 * SERIES_CYCLES


def test_the_route_answers_by_range(tmp_path: Path) -> None:
    here = world(tmp_path, looping(), sated())
    here.run(100)
    http = TestClient(create_app(here.service), base_url="http://localhost")
    url = "/api/v1/tenants/series?cgroup=/scan"
    told = http.get(url).json()
    assert len(told["time_s"]) == 100 and told["step_s"] == 1.0
    assert told["until_s"] == here.plant.time_s and told["throughput_ops"][-1] > 0
    since = here.plant.time_s - 10
    assert len(http.get(f"{url}&since={since}").json()["time_s"]) == 11
    few = http.get(f"{url}&points=7&since={since - 80}").json()
    assert len(few["time_s"]) <= 10 and not any(map(math.isnan, few["time_s"]))
    assert http.get("/api/v1/tenants/series?cgroup=/gone").status_code == 404
    assert http.get("/api/v1/tenants/series?cgroup=/gone&node=plant").json()["time_s"] == []
    assert http.get(f"{url}&since=9&until=3").status_code == 422
