# SPDX-License-Identifier: Apache-2.0
"""How careful the guard is."""

from dataclasses import dataclass

from cachepilot.ranges import Ranges, check_ranges
from cachepilot.sizes import PAGE_BYTES

RANGES: Ranges = {
    "tolerance_pct": (0.0, 50.0),
    "miss_tolerance": (0.0, 0.5),
    "noise_sigmas": (0.0, 10.0),
    "kept_gain_pct": (0.0, 100.0),
    "memory_gain_pct": (0.0, 100.0),
    "baseline_intervals": (2, 60),
    "judge_intervals": (2, 60),
    "confirm_intervals": (1, 3),
    "adapt_min_s": (0.0, 3600.0),
    "adapt_max_s": (0.0, 3600.0),
    "turnovers": (0.0, 100.0),
    "patience_s": (0.1, 3600.0),
    "extend_max_s": (0.0, 3600.0),
    "dwell_s": (0.0, 3600.0),
    "cool_down_s": (0.0, 86400.0),
    "cool_down_max_s": (0.0, 604800.0),
}


@dataclass(frozen=True)
class GuardConfig:
    """Settings of memory that moves between tenants; times are those of the node.

    A tenant is worse off when it is below its baseline by `tolerance_pct` of throughput or
    `miss_tolerance` of miss ratio, and by `noise_sigmas` standard errors on top.
    A change of memory is kept when the miss ratio fell by `kept_gain_pct` of what was predicted.
    Where memory could go in the end must promise `memory_gain_pct` of what the goal is about, the
    weighted geometric mean of throughputs or their weighted sum (of limits, under `least_memory`),
    beyond error bars, for `confirm_intervals`.
    It is judged over `judge_intervals` once the cache has seen `turnovers` times its pages in
    accesses, after `adapt_min_s` to `adapt_max_s`. Memory is moved for up to `extend_max_s` before
    it is judged.
    Trials wait `patience_s` for data. `dwell_s` lies between two changes, `cool_down_s` after one
    that was taken back, doubling up to `cool_down_max_s`. So does what lies between memory that
    moved without a measured gain and the next, and before a tenant's limit turns round.
    """

    tolerance_pct: float = 3.0
    miss_tolerance: float = 0.01
    noise_sigmas: float = 2.0
    kept_gain_pct: float = 25.0
    memory_gain_pct: float = 2.0
    baseline_intervals: int = 10
    judge_intervals: int = 4
    confirm_intervals: int = 3
    adapt_min_s: float = 2.0
    adapt_max_s: float = 60.0
    turnovers: float = 1.0
    patience_s: float = 30.0
    extend_max_s: float = 60.0
    dwell_s: float = 10.0
    cool_down_s: float = 60.0
    cool_down_max_s: float = 3600.0

    def __post_init__(self) -> None:
        check_ranges("guard", self, RANGES)

    def turned_pages(self, limit_bytes: int) -> float:
        """Accesses, or misses, after which a cache of that size counts as turned over."""
        return self.turnovers * limit_bytes / PAGE_BYTES
