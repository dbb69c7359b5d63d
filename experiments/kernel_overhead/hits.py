# SPDX-License-Identifier: Apache-2.0
"""Instructions of the patch series on a read whose page is cached, and on one that misses.

They are counted by function, so that other differences between two runs do not count: all functions
that the series adds, the programs of the policy, and what the series adds to functions that were
there before.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean

from experiments.shared.rows import Row

from cachepilot import manifest

from . import measure, noop_policy, where
from .measure import STOCK, UNATTACHED, Mode, Sizes

# Functions of the series, and the programs of policies.
OWN_PREFIXES = ("__cache_ext_", "cache_ext_", "cx_", "bpf_cache_ext_")
PROGRAMS = "(bpf)"
# Functions on the path of a read of a cached page that the series changes.
CHANGED = ("filemap_get_pages", "filemap_read", "folio_mark_accessed")
LOCKS = ("_raw_spin_lock", "_raw_spin_trylock", "queued_spin_lock_slowpath")
# Every hit of one kind executes the same instructions.
READS_PER_JOB = 1000
ALL_CACHED_PCT = 125
FEW_CACHED_PCT = 25

GOAL_UNATTACHED = 5
GOAL_HIT = 40
GOAL_MISS = 420
# Timer interrupts take locks too. Fewer instructions per read than this are theirs.
GOAL_LOCKS = 0.5

Profile = Mapping[str, float]


def _with_prefix(profile: Profile, prefixes: tuple[str, ...]) -> float:
    return sum(count for name, count in profile.items() if name.startswith(prefixes))


def own_functions(profile: Profile) -> float:
    """Return the instructions per read of functions of the series and of programs."""
    return _with_prefix(profile, OWN_PREFIXES) + profile.get(PROGRAMS, 0)


def own_instructions(profile: Profile, stock: Profile) -> float:
    """Return the instructions per read that hits: own functions, and additions to existing ones."""
    changed = sum(profile.get(name, 0) - stock.get(name, 0) for name in CHANGED)
    return own_functions(profile) + changed


def lock_instructions(profile: Profile, unattached: Profile) -> float:
    """Return the instructions per read in spinlocks, beyond those of reads without a policy."""
    return _with_prefix(profile, LOCKS) - _with_prefix(unattached, LOCKS)


def _modes() -> list[tuple[Mode, float | None]]:
    """Return what is counted, and its goal."""
    objects = noop_policy.build()
    modes: list[tuple[Mode, float | None]] = [
        (UNATTACHED, GOAL_UNATTACHED),
        (measure.elsewhere(objects), GOAL_UNATTACHED),
        (measure.noop(objects), GOAL_HIT),
    ]
    for name in manifest.attachable():
        goal = GOAL_HIT if "folio_counted" in manifest.find(name).hooks else None
        modes.append((Mode(name, measure.KERNEL, f"policy {name}"), goal))
    return modes


def misses_per_read(text: str, reads: int) -> float:
    """Return the misses per read, from the output of `profile` in guest.sh.

    They are the block reads of the long run minus those of the short one.
    """
    short, long = map(json.loads, text.splitlines()[-2:])
    return float(long["block_reads"] - short["block_reads"]) / reads


def _hits(
    found: where.Profiles,
    modes: Sequence[tuple[Mode, float | None]],
    base_name: str,
    base: Profile,
) -> list[Row]:
    return [
        Row(
            f"kernel.hit_instructions.{mode.name}",
            own_instructions(found[mode.name, ALL_CACHED_PCT], base),
            "instructions",
            goal=goal,
            reference=f"{base_name}, guest instructions per read that hits",
            reference_value=sum(base.values()),
        )
        for mode, goal in modes
        if mode.name != base_name
    ]


def _locks(found: where.Profiles) -> Row:
    base = found[UNATTACHED.name, ALL_CACHED_PCT]
    locks = {
        name: lock_instructions(found[name, ALL_CACHED_PCT], base) for name in manifest.attachable()
    }
    worst = max(locks, key=lambda name: locks[name])
    return Row(
        "kernel.hit_lock_instructions.worst",
        locks[worst],
        "instructions",
        goal=GOAL_LOCKS,
        reference=f"in spinlocks per read that hits; the shipped policy with most: {worst}",
        runs=len(locks),
        spread=(min(locks.values()), locks[worst]),
    )


def _few_reads(sizes: Sizes, *cgroup_pct: int) -> Sizes:
    reads = min(sizes.reads_per_job, READS_PER_JOB)
    return replace(sizes, cgroup_pct=cgroup_pct, reads_per_job=reads)


def run_misses(sizes: Sizes, kernel: str) -> list[Row]:
    """Return `kernel.miss_instructions`: what a read that misses costs beyond a hit.

    It is counted in several boots, since the positions of records in the hash table are random.
    """
    sizes = _few_reads(sizes, ALL_CACHED_PCT)
    noop = measure.noop(noop_policy.build())
    hit = own_functions(where.profiles(kernel, [noop], sizes)[noop.name, ALL_CACHED_PCT])
    sizes = replace(sizes, cgroup_pct=(FEW_CACHED_PCT,))
    costs = []
    for _ in range(sizes.repeats):
        read = own_functions(where.profiles(kernel, [noop], sizes)[noop.name, FEW_CACHED_PCT])
        text = where.printed(kernel, noop, FEW_CACHED_PCT)
        costs.append((read - hit) / misses_per_read(text, measure.JOBS * sizes.reads_per_job))
    return [
        Row(
            "kernel.miss_instructions.noop",
            mean(costs),
            "instructions",
            goal=GOAL_MISS,
            reference="beyond those of a hit, without those in spinlocks and in allocating memory",
            runs=len(costs),
            spread=(min(costs), max(costs)),
        )
    ]


def run(sizes: Sizes, kernel: str) -> list[Row]:
    """Return `kernel.hit_instructions.*` and `kernel.hit_lock_instructions`.

    A kernel other than the one for counting is compared with itself without a policy.
    """
    sizes = _few_reads(sizes, ALL_CACHED_PCT)
    modes = _modes()
    by_name = {mode.name: mode for mode, _ in modes}
    found = where.profiles(kernel, list(by_name.values()), sizes)
    base_name, base = UNATTACHED.name, found[UNATTACHED.name, ALL_CACHED_PCT]
    if kernel == measure.KERNEL:
        stock = where.profiles(STOCK.kernel, [STOCK], sizes)
        base_name, base = STOCK.name, stock[STOCK.name, ALL_CACHED_PCT]
    return [*_hits(found, modes, base_name, base), _locks(found)]
