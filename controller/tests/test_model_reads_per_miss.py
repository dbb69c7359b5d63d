# SPDX-License-Identifier: Apache-2.0
"""What a policy misses counts by the device reads that it waits for."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import Plant, PlantTenant, flat
from experiments.control_loop.world import World

from cachepilot.domain.decisions import Event
from cachepilot.domain.objectives.objective import Objective
from cachepilot.model.reads_per_miss import READS_MIN, ReadsPerMiss
from cachepilot.sense.counters import Pages

MIB = 1 << 20
SOME = Pages(10_000, 5_000, 1_000)


def known(*intervals: Pages) -> ReadsPerMiss:
    found = ReadsPerMiss()
    for pages in intervals:
        found.take("default", pages, 1.0, 40.0)
    return found


def test_a_missed_page_counts_by_the_reads_that_it_takes_against_the_default() -> None:
    learnt = known(*[SOME] * 20)
    learnt.take("lru", Pages(10_000, 4_000, 4_000), 1.0, 40.0)
    assert learnt.weight("lru", Pages(10_000, 4_000, 1_200)) == pytest.approx(1.5)
    assert learnt.weight("lru", SOME) == pytest.approx(1.0)
    assert learnt.weight("default", Pages(10_000, 4_000, 1_200)) == 1.0
    assert learnt.weight("lru", Pages(10_000, 0, 7)) == 1.0
    learnt.forget()
    assert learnt.weight("lru", Pages(10_000, 4_000, 1_200)) == 1.0


def test_reads_beyond_the_page_cache_count_for_no_missed_page() -> None:
    """Direct I/O: a missed page is one read at most, and of the default nothing is learnt of it."""
    learnt = known(*[SOME] * 20)
    assert learnt.weight("lru", Pages(10_000, 150, 5_000)) == pytest.approx(5.0)
    learnt.take("default", Pages(10_000, 5_000, 50_000), 1.0, 40.0)
    assert learnt.of_default == pytest.approx(0.2)
    assert ReadsPerMiss().of_default == 1.0


@pytest.mark.parametrize(
    "reads", [0, READS_MIN - 1, 5_001], ids=["none", "few", "not those of the page cache"]
)
def test_reads_that_tell_nothing_change_nothing(reads: float) -> None:
    learnt = known(Pages(10_000, 5_000, int(reads)))
    assert learnt.weight("lru", Pages(10_000, 4_000, 1_200)) == 1.0


@pytest.mark.parametrize(("lru", "ends"), [(0.2, "lru"), (0.3, "default")])
def test_a_policy_that_misses_less_and_waits_for_more_is_undone(
    tmp_path: Path, lru: float, ends: str
) -> None:
    web = PlantTenant(
        "/web",
        {"default": flat(0.5), "lru": flat(0.4)},
        64 * MIB,
        reads_per_miss={"default": 0.2, "lru": lru},
    )
    plant = Plant([web], 64 * MIB, (16 * MIB, 64 * MIB, 128 * MIB))
    world = World(tmp_path, plant, (Objective("*"),))
    world.run(600)
    assert web.policy == ends
    assert Event.TRIAL in world.events() and (Event.REVERTED in world.events()) == (lru > 0.2)
    assert len(plant.swaps) <= 2
