# SPDX-License-Identifier: Apache-2.0
"""Misses of a policy count by the device reads for which they wait."""

from pathlib import Path

import numpy as np
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
        found.follow("default", pages, 1.0, 40.0)
    return found


def weight(learnt: ReadsPerMiss, *intervals: Pages, policy: str = "lru") -> float:
    for pages in intervals:
        learnt.follow(policy, pages, 1.0, 40.0)
    return learnt.weight(policy)


def test_a_missed_page_counts_by_the_reads_that_it_takes_against_the_default() -> None:
    more = Pages(10_000, 4_000, 1_200)
    learnt = known(*[SOME] * 20)
    assert learnt.weight("lru") == 1.0
    assert weight(learnt, more) == pytest.approx(1.5)
    assert weight(learnt, SOME, policy="mru") == pytest.approx(1.0)
    assert learnt.weight("default") == 1.0 < learnt.weight("lru") == learnt.weight_of_others
    assert weight(learnt, Pages(10_000, 0, 7)) == 1.0
    assert weight(learnt, more) == pytest.approx(1.5, rel=0.01)
    learnt.forget_all_but("lru")
    assert weight(learnt, more) == pytest.approx(1.5, rel=0.01), "the default's is still known"


def test_after_a_change_of_the_workload_the_defaults_old_ratio_counts_against_a_policy_only() -> (
    None
):
    """With scans, each page that a policy misses takes few reads; so it would under the default."""
    learnt, scans = known(*[SOME] * 20), Pages(10_000, 4_000, 80)
    assert weight(learnt, *[scans] * 5) == pytest.approx(0.1)
    learnt.forget_all_but("lru")
    assert weight(learnt, scans) == learnt.weight_of_others == 1.0
    learnt.follow("default", scans, 1.0, 40.0)
    learnt.follow("default", scans, 1.0, 40.0)
    assert learnt.of_default == pytest.approx(0.02)
    assert weight(learnt, scans) == pytest.approx(1.0, rel=0.01)


def test_reads_beyond_the_page_cache_count_for_no_missed_page() -> None:
    """With direct I/O, a missed page counts as one read at most."""
    assert weight(known(*[SOME] * 20), Pages(10_000, 150, 5_000)) == pytest.approx(5.0)
    assert ReadsPerMiss().of_default == 1.0


def test_reads_of_the_default_from_before_other_reads_fade() -> None:
    """After ten minutes of scans, direct I/O runs beside the page cache, which teaches nothing."""
    learnt = known(*[Pages(10_000, 5_000, 250)] * 600)
    assert weight(learnt, Pages(10_000, 3_000, 150)) == pytest.approx(1.0)
    assert weight(learnt, Pages(10_000, 500, 5_500), policy="mru") == pytest.approx(20.0)
    for _ in range(600):
        learnt.follow("default", Pages(10_000, 1_000, 6_000), 1.0, 40.0)
    assert learnt.of_default == 1.0 and weight(learnt, Pages(10_000, 500, 5_500)) == 1.0


@pytest.mark.parametrize(("misses", "in_flight"), [(5, 8), (20, 8), (100, 32)])
def test_reads_that_end_in_the_next_interval_make_no_policy_worse(
    misses: int, in_flight: int
) -> None:
    """Each miss is one read under every policy; some reads are under way between intervals."""
    random, left, learnt = np.random.default_rng(1), 0, ReadsPerMiss()

    def pages() -> Pages:
        nonlocal left
        missed, before, left = int(random.poisson(misses)), left, int(random.integers(in_flight))
        return Pages(10_000, missed, max(0, missed + before - left))

    for _ in range(600):
        learnt.follow("default", pages(), 1.0, 40.0)
    some = [pages() for _ in range(2000)]
    counted = sum(weight(learnt, one) * one.misses for one in some)
    assert counted == pytest.approx(sum(one.misses for one in some), rel=0.02)


@pytest.mark.parametrize(
    "reads", [0, READS_MIN - 1, 5_001], ids=["none", "few", "not those of the page cache"]
)
def test_too_few_or_excess_reads_change_nothing(reads: float) -> None:
    learnt = known(Pages(10_000, 5_000, int(reads)))
    assert weight(learnt, Pages(10_000, 4_000, 1_200)) == 1.0


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


@pytest.mark.parametrize("first_s", [0, 120])
def test_a_change_of_the_workload_does_not_hide_the_reads_of_a_policy(
    tmp_path: Path, first_s: int
) -> None:
    """While a policy that waits for more reads is on trial, the agent reports another regime."""
    curves, reads = {"default": flat(0.5), "lru": flat(0.5)}, {"default": 0.2, "lru": 0.3}
    web = PlantTenant("/web", curves, 64 * MIB, reads_per_miss=reads)
    plant = Plant([web], 64 * MIB, (16 * MIB, 64 * MIB, 128 * MIB))
    world = World(tmp_path, plant, (Objective("*"),))
    world.run(first_s)
    curves["lru"] = flat(0.4)
    while web.policy == "default":
        world.run(1)
    web.phase += 1
    world.run(120)
    assert web.policy == "default"


def test_no_policy_is_tried_after_a_similar_one_took_more_reads(tmp_path: Path) -> None:
    """Three policies miss a fifth less, and wait for a fifth more reads: one trial is enough."""
    curves = {"default": flat(0.5), **dict.fromkeys(("lru", "mru", "sieve"), flat(0.4))}
    reads = {**dict.fromkeys(curves, 0.3), "default": 0.2}
    web = PlantTenant("/web", curves, 64 * MIB, reads_per_miss=reads)
    plant = Plant([web], 64 * MIB, (16 * MIB, 64 * MIB, 128 * MIB))
    World(tmp_path, plant, (Objective("*"),)).run(600)
    assert web.policy == "default"
    assert len(plant.swaps) == 2


def test_what_others_took_is_expected_of_an_untried_policy_until_the_workload_changes() -> None:
    more, learnt = Pages(10_000, 4_000, 1_200), known(*[SOME] * 20)
    assert learnt.weight_of_others == pytest.approx(1.0)
    assert weight(learnt, Pages(1_000, 200, 60), policy="mru") == pytest.approx(1.5)
    assert 1.0 < learnt.weight_of_others < 1.25, "few reads"
    assert weight(learnt, *[more] * 5) == pytest.approx(1.5)
    assert learnt.weight_of_others == pytest.approx(1.5, rel=0.02)
    assert weight(learnt, *[SOME] * 20, policy="mru") == pytest.approx(1.0)
    assert 1.0 < learnt.weight_of_others < 1.25
    learnt.forget_all_but("mru")
    assert learnt.weight("mru") == learnt.weight_of_others == pytest.approx(1.0)
    weight(learnt, *[more] * 20, policy="mru")
    assert learnt.weight_of_others > 1.2
    learnt.follow("default", SOME, 1.0, 40.0)
    learnt.forget_all_but("default")
    assert learnt.weight_of_others == pytest.approx(1.0)


def test_what_others_took_is_forgotten_in_a_day() -> None:
    learnt = known(*[SOME] * 20)
    weight(learnt, *[Pages(10_000, 4_000, 1_200)] * 5)
    for _ in range(24 * 60):
        learnt.follow("default", SOME, 60.0, 40.0)
    assert learnt.weight_of_others == pytest.approx(1.0, abs=0.01)


def test_the_error_of_weights_follows_from_how_much_the_ratio_changes_from_time_to_time() -> None:
    assert known(*[SOME] * 20).weight_error("default") == pytest.approx(0.0, abs=1e-6)
    random, found = np.random.default_rng(5), []
    for _ in range(200):
        learnt = ReadsPerMiss()
        for _ in range(60):
            misses = int(random.integers(1_000, 9_000))
            reads = round(misses * random.uniform(0.1, 0.3))
            # Nothing fades in half an hour.
            learnt.follow("default", Pages(10_000, misses, reads), 1.0, 1e9)
        found.append((learnt.of_default, learnt.weight_error("default")))
    ratios, errors = np.array(found).T
    assert errors.mean() == pytest.approx(ratios.std() / ratios.mean(), rel=0.2)


def test_a_new_policy_is_as_uncertain_as_the_default_until_its_own_scatter_shows() -> None:
    random, learnt = np.random.default_rng(6), ReadsPerMiss()

    def some() -> Pages:
        return Pages(10_000, 5_000, int(random.integers(500, 1_500)))

    for _ in range(200):
        learnt.follow("default", some(), 1.0, 40.0)
    before = learnt.weight_error("default")
    assert 0.02 < before < 0.08
    assert learnt.weight_error("lru") > 3 * before
    for _ in range(200):
        learnt.follow("lru", some(), 1.0, 40.0)
    assert learnt.weight_error("lru") == pytest.approx(before * 2**0.5, rel=0.3)


@pytest.mark.parametrize(("misses", "in_flight"), [(5, 8), (20, 8), (100, 32)])
def test_reads_that_end_in_the_next_interval_are_no_error(misses: int, in_flight: int) -> None:
    random, left, learnt = np.random.default_rng(2), 0, ReadsPerMiss()
    for _ in range(600):
        missed, before, left = int(random.poisson(misses)), left, int(random.integers(in_flight))
        pages = Pages(10_000, missed, max(0, min(missed + before - left, missed + before)))
        learnt.follow("default", pages, 1.0, 40.0)
    assert learnt.weight_error("default") < 0.03


def test_the_scatter_of_a_slow_tenant_stays_known_between_its_blocks() -> None:
    random, learnt, found = np.random.default_rng(7), ReadsPerMiss(), []
    for second in range(3000):
        misses = int(random.integers(5, 50))
        pages = Pages(100, misses, int(misses * random.uniform(0.1, 0.9)))
        learnt.follow("default", Pages(100, pages.misses, pages.reads // 4), 1.0, 40.0)
        if second > 500 and learnt.reads >= READS_MIN:
            found.append(learnt.weight_error("default"))
    assert min(found) > 0
    assert max(found) < 0.5
