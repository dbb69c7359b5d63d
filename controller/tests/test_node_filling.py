# SPDX-License-Identifier: Apache-2.0
"""A page cache that still fills: nothing is learnt of its limit, and no SLO takes for it."""

from pathlib import Path

from experiments.control_loop.plant import Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.domain.objectives.objective import Objective
from cachepilot.sense.filling import FILLED_S, Filling
from cachepilot.v1 import session_pb2 as wire

MIB = 1 << 20


def told(limit_mib: float, current_mib: float) -> wire.Tenant:
    return wire.Tenant(limit_bytes=int(limit_mib * MIB), current_bytes=int(current_mib * MIB))


def test_a_cache_below_its_limit_fills_until_it_is_full() -> None:
    known = Filling()
    assert [known.take(told(16, now), 1.0) for now in (1, 8, 15, 15.5, 16)] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_a_small_cache_is_full_with_a_batch_of_reclaim_to_spare() -> None:
    assert not Filling().take(told(2, 1.76), 1.0)
    assert Filling().take(told(2, 1.7), 1.0)


def test_a_page_cache_that_has_not_grown_for_a_minute_is_filled() -> None:
    known = Filling()
    found = [known.take(told(64, 20), 2.0) for _ in range(40)]
    assert found == [2 * i < FILLED_S for i in range(40)]


def test_a_large_cache_fills_for_as_long_as_it_grows() -> None:
    known = Filling()
    for i in range(600):
        assert known.take(told(65_536, 100 * i), 1.0)


def test_a_page_cache_that_grows_after_a_pause_fills_again() -> None:
    known = Filling()
    for _ in range(100):
        filled = not known.take(told(64, 20), 1.0)
    assert filled and known.take(told(64, 30), 1.0)


def test_without_a_limit_a_cache_fills_for_as_long_as_it_grows() -> None:
    known = Filling()
    assert not known.take(told(0, 100), 1.0)
    for i in range(1, 100):
        assert known.take(told(0, 100 + 10 * i), 1.0)
    found = [known.take(told(0, 1090), 1.0) for _ in range(100)]
    assert found[0] and not any(found[int(FILLED_S) :])


def test_without_a_limit_a_cache_that_does_not_grow_does_not_fill() -> None:
    known = Filling()
    assert not any(known.take(told(0, 100 + i / 100), 1.0) for i in range(200))


def test_a_raised_limit_fills_again_and_a_lowered_one_does_not() -> None:
    known = Filling()
    for _ in range(100):
        known.take(told(64, 20), 1.0)
    assert not known.take(told(48, 20), 1.0)
    assert known.take(told(96, 20), 1.0)
    assert known.take(told(96, 20), 1.0)


def test_the_interval_in_which_a_limit_rose_is_not_of_it() -> None:
    known = Filling()
    assert not known.take(told(16, 16), 1.0)
    assert known.take(told(32, 32), 1.0)
    assert not known.take(told(32, 32), 1.0)


def test_an_slo_that_a_cold_cache_misses_takes_nothing_before_the_cache_is_full(
    tmp_path: Path,
) -> None:
    cold = PlantTenant("/cold", {"default": linear(256 * MIB)}, 128 * MIB, room_bytes=120 * MIB)
    other = PlantTenant("/other", {"default": linear(256 * MIB)}, 128 * MIB)
    sizes = tuple(MIB * size for size in (16, 64, 96, 128, 192, 256))
    plant = Plant([cold, other], 256 * MIB, sizes, miss_cost_us=5000.0)
    stated = [Objective("/cold", throughput_ops=1500.0), Objective("*")]
    here = World(tmp_path, plant, stated)
    for _ in range(20):
        here.run(1)
    assert cold.done < 20 * 1500 and cold.room_bytes > 0, "the SLO is to be missed so far"
    for _ in range(60):
        before = cold.done
        here.run(1)
        assert (cold.limit_bytes, other.limit_bytes) == (128 * MIB, 128 * MIB)
    assert cold.done - before > 1500 and cold.room_bytes == 0


def filling(world: World) -> set[str]:
    report = world.loop.report
    assert report is not None
    return {name for name, one in report.collected.seen.items() if one.is_filling}


def test_a_cgroup_that_was_created_again_fills_again(tmp_path: Path) -> None:
    idle = PlantTenant("/idle", {"default": lambda _: 0.0}, 128 * MIB, room_bytes=100 * MIB)
    here = World(tmp_path, Plant([idle], 256 * MIB, (64 * MIB, 256 * MIB)))
    here.run(int(FILLED_S) + 10)
    assert filling(here) == set()
    idle.cgroup_id += 1
    here.run(1)
    assert filling(here) == {"/idle"}
