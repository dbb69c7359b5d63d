# SPDX-License-Identifier: Apache-2.0
"""How soon the policy follows a changing workload, and how many wrong swaps happen meanwhile."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from experiments.autopilot_simulated.rig import Look, Setup, Tenant, play
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row
from experiments.shared.side_by_side import side_by_side

from cachepilot import _models
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.manifest import attachable

PAGES = 60_000
LOOP_PAGES = 24_000
LIMIT_PAGES = 16_000
PAGE_BYTES = 4096
CHANGE_S = 120.0
SECONDS = 240.0
MARGIN = 0.02
"""A policy whose miss ratio is within this of the best one's is as good as the best."""
GOAL_INTERVALS = 2.0
GOAL_WRONG_SWAPS = 0.0
CGROUP = "/changing"


@cache
def good_policies() -> frozenset[str]:
    """Return the policies that are as good as the best for the second workload, by simulation."""
    keys = np.tile(np.arange(LOOP_PAGES, dtype=np.uint64), 8)
    late = LOOP_PAGES * 4
    found = {}
    for name in attachable():
        hits = _models.simulate_hits(keys, name, LIMIT_PAGES)[late:]
        found[name] = 1.0 - float(hits.mean())
    best = min(found.values())
    return frozenset(name for name, miss in found.items() if miss <= best + MARGIN)


def node(seed: int) -> Setup:
    """Return one tenant: skewed reads, then a loop half as large again as its memory."""
    first = {"kind": "zipf", "alpha": 0.9, "pages": PAGES}
    second = {"kind": "loop", "pages": LOOP_PAGES, "offset": 1_000_000}
    phases: list[dict[str, Any]] = [{"seconds": CHANGE_S, "source": first}, {"source": second}]
    tenant = Tenant(CGROUP, LIMIT_PAGES * PAGE_BYTES, phases)
    return Setup([tenant], LIMIT_PAGES * PAGE_BYTES, SECONDS, seed=seed)


def follow(looks: Sequence[Look]) -> tuple[float | None, int]:
    """Return the seconds until a good policy is in force for good, and the number of wrong swaps.

    The seconds count from when all new pages have been accessed once. They are None if no good
    policy is in force at the end.
    """
    after = [one for one in looks if one.time_s >= CHANGE_S]
    begun = after[0].accesses_total
    seen_s = next(one.time_s for one in after if one.accesses_total - begun >= LOOP_PAGES)
    wrong = sum(
        now.policy != before.policy and now.policy not in good_policies()
        for before, now in pairwise(after)
    )
    if after[-1].policy not in good_policies():
        return None, wrong
    last_bad = [one.time_s for one in after if one.policy not in good_policies()]
    return max(0.0, max(last_bad, default=seen_s) - seen_s), wrong


def followed(seed: int) -> tuple[float | None, int]:
    """Return the result of `follow` for a run with this seed."""
    return follow(play(node(seed), Objectives((Objective("*"),))).looks[CGROUP])


def rows(found: Sequence[tuple[float | None, int]]) -> list[Row]:
    """Return `autopilot.phase.*` from the result of `follow` for each seed.

    Goals apply to the worst.

    A run that ends without a good policy counts as waiting to its end.
    """
    good = ", ".join(sorted(good_policies()))
    return [
        *Row.worst_of(
            "autopilot.phase.intervals",
            [SECONDS - CHANGE_S if waited is None else waited for waited, _ in found],
            "intervals",
            goal=GOAL_INTERVALS,
            reference=f"after the new pages were seen once; good are {good}; simulated node",
        ),
        *Row.worst_of(
            "autopilot.phase.wrong_swaps",
            [float(wrong) for _, wrong in found],
            "swaps",
            goal=GOAL_WRONG_SWAPS,
        ),
    ]


def measure(seeds: int) -> Sequence[Row]:
    """Measure `autopilot.phase.intervals` and `.wrong_swaps`, with a value per seed."""
    found = []
    for seed, (waited, wrong) in enumerate(side_by_side(followed, range(1, seeds + 1)), start=1):
        say(f"phase, seed {seed}: {waited} s, {wrong} wrong")
        found.append((waited, wrong))
    return rows(found)
