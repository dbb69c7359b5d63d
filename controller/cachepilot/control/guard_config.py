# SPDX-License-Identifier: Apache-2.0
"""How careful the guard is."""

from dataclasses import dataclass, fields

from cachepilot.errors import InputError
from cachepilot.sizes import PAGE_BYTES

RANGES: dict[str, tuple[float, float]] = {
    "tolerance_pct": (0.0, 50.0),
    "miss_tolerance": (0.0, 0.5),
    "noise_sigmas": (0.0, 10.0),
    "min_gain_pct": (0.0, 100.0),
    "kept_gain_pct": (0.0, 100.0),
    "memory_gain_pct": (0.0, 100.0),
    "baseline_intervals": (2, 60),
    "judge_intervals": (2, 60),
    "confirm_intervals": (1, 3),
    "adapt_min_s": (0.0, 3600.0),
    "adapt_max_s": (0.0, 3600.0),
    "turnovers": (0.0, 100.0),
    "effect_s": (0.1, 3600.0),
    "patience_s": (0.1, 3600.0),
    "extend_max_s": (0.0, 3600.0),
    "dwell_s": (0.0, 3600.0),
    "cool_down_s": (0.0, 86400.0),
    "cool_down_max_s": (0.0, 604800.0),
    "trial_loss_pct": (0.0, 100.0),
    "trial_loss_s": (0.1, 3600.0),
    "swaps_per_hour": (2, 3600),
    "trials_at_once": (1, 4096),
}


@dataclass(frozen=True)
class GuardConfig:
    """Settings of the guard; times are those of the node.

    A tenant is worse off when it is below its baseline by `tolerance_pct` of throughput or
    `miss_tolerance` of miss ratio, and by `noise_sigmas` standard errors on top.
    A change of policy must be predicted to give `min_gain_pct`, and more than noise would hide from
    its verdict, for `confirm_intervals` in a row unless curves differ far beyond their error bars.
    It is kept when the miss ratio fell by `kept_gain_pct` of what was predicted. A policy that was
    taken back is not tried again before its curve changed, or `cool_down_max_s` passed.
    Where memory could go in the end must promise `memory_gain_pct` of the node's weighted
    throughput (of its limits, under `least_memory`), beyond error bars, for `confirm_intervals`.
    It is judged over `judge_intervals` once the cache has seen `turnovers` times its pages in
    accesses, after `adapt_min_s` to `adapt_max_s`; `effect_s` is how long it may take to be made.
    What shows no gain by then, and no harm, is judged once more when the same holds in misses.
    Memory is moved for up to `extend_max_s` before it is judged.
    Trials wait `patience_s` for data. `dwell_s` lies between two changes, `cool_down_s` after one
    that was taken back, doubling up to `cool_down_max_s`. So does what lies between memory that
    moved without a measured gain and the next, and before a tenant's limit turns round.
    Trials of policies that are taken back may cost a tenant `trial_loss_pct` of its throughput over
    time; `trial_loss_s` seconds' worth is what it may lose beforehand, and one trial at most.
    `swaps_per_hour` bounds changes of policy per tenant, those that take back included, and
    `trials_at_once` trials of policies per node: they share a device.
    """

    tolerance_pct: float = 3.0
    miss_tolerance: float = 0.01
    noise_sigmas: float = 2.0
    min_gain_pct: float = 2.0
    kept_gain_pct: float = 25.0
    memory_gain_pct: float = 2.0
    baseline_intervals: int = 10
    judge_intervals: int = 4
    confirm_intervals: int = 3
    adapt_min_s: float = 2.0
    adapt_max_s: float = 60.0
    turnovers: float = 1.0
    effect_s: float = 15.0
    patience_s: float = 30.0
    extend_max_s: float = 60.0
    dwell_s: float = 10.0
    cool_down_s: float = 60.0
    cool_down_max_s: float = 3600.0
    trial_loss_pct: float = 1.0
    trial_loss_s: float = 6.0
    swaps_per_hour: int = 20
    trials_at_once: int = 16

    def __post_init__(self) -> None:
        for field in fields(self):
            low, high = RANGES[field.name]
            value = getattr(self, field.name)
            if not low <= value <= high:
                allowed = f"allowed: {low:g} to {high:g}"
                raise InputError(f"guard: {field.name}: {value} is out of range ({allowed})")

    def turned_pages(self, limit_bytes: int) -> float:
        """Accesses, or misses, after which a cache of that size counts as turned over."""
        return self.turnovers * limit_bytes / PAGE_BYTES
