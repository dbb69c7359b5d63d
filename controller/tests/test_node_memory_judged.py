# SPDX-License-Identifier: Apache-2.0
"""A change of memory is judged by its effect, and by curves that have enough confidence."""

from pathlib import Path

from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat, linear, scan
from experiments.control_loop.world import World
from worlds import SIZES, memory_change, until

from cachepilot.decide.rollout import order
from cachepilot.decide.state import is_settling
from cachepilot.domain.objectives.objective import Objective

EVERYBODY = (Objective("*"),)


def test_what_the_rollback_of_a_policy_reads_again_is_no_loss_by_a_change_of_memory(
    tmp_path: Path,
) -> None:
    curve = scan(180 * MIB, 0.02)
    web = PlantTenant("/web", {"default": curve, "lru": curve}, 256 * MIB, policy="lru", threads=1)
    other = PlantTenant("/other", {"default": linear(400 * MIB)}, 64 * MIB)
    here = World(tmp_path, Plant([web, other], 320 * MIB, SIZES), EVERYBODY)
    until(here, lambda: memory_change(here), 300)
    policy = here.loop._decider.state.tenants["/web"].policy
    assert policy.trial is not None and not is_settling(policy)
    policy.trial, web.reread_pages = None, 48_000.0
    order(policy, "default", web.reread_pages)
    here.run(150)
    assert web.policy == "default" and here.loop._decider.state.memory.lost == 0
    assert "reverted" not in here.events("/other") and "kept" in here.events("/other")
    assert other.limit_bytes >= 120 * MIB


def test_who_got_memory_and_is_doubted_since_does_not_confirm_what_it_never_gained(
    tmp_path: Path,
) -> None:
    web = PlantTenant("/web", {"default": scan(60 * MIB, 0.02)}, 128 * MIB)
    other = PlantTenant("/other", {"default": flat(0.68)}, 64 * MIB)
    other.told = {"default": linear(200 * MIB)}
    here = World(tmp_path, Plant([web, other], 192 * MIB, SIZES), EVERYBODY)
    until(here, lambda: other.limit_bytes > 64 * MIB, 300)
    other.distrust = "predicts less, measured more"
    here.run(550)
    assert here.events("/other") == ["trial"] and other.limit_bytes > 64 * MIB
    here.run(100)
    assert here.events("/other") == ["trial", "abandoned"] and other.limit_bytes == 64 * MIB


def test_who_gave_what_it_needs_and_is_doubted_since_confirms_no_change(tmp_path: Path) -> None:
    web = PlantTenant("/web", {"default": scan(110 * MIB, 0.02)}, 128 * MIB)
    web.told = {"default": scan(60 * MIB, 0.02)}
    other = PlantTenant("/other", {"default": linear(400 * MIB)}, 64 * MIB)
    stated = (Objective("*", keep=0.0),)
    here = World(tmp_path, Plant([web, other], 192 * MIB, SIZES), stated)
    until(here, lambda: web.limit_bytes < 110 * MIB, 300)
    web.distrust = "predicts 0.02, measured 1"
    here.run(550)
    assert "kept" not in here.events() and web.limit_bytes < 110 * MIB
    here.run(100)
    assert "kept" not in here.events() and web.limit_bytes == 128 * MIB
