# SPDX-License-Identifier: Apache-2.0
"""How careful the decider is."""

from dataclasses import dataclass

from cachepilot.ranges import Ranges, check_ranges

RANGES: Ranges = {
    "loss_share": (0.0, 0.5),
    "reserve_s": (0.0, 86_400.0),
    "least_gain": (0.0, 1.0),
    "switch_share": (0.0, 4.0),
    "half_life_s": (1.0, 3600.0),
    "calibration_half_life_s": (1.0, 3600.0),
    "sigmas": (0.0, 10.0),
    "undo_times": (1.0, 100.0),
}


@dataclass(frozen=True)
class DecideConfig:
    """Settings of the decider; times are those of the node.

    Changes may cost a tenant `loss_share` of what the kernel's default costs it, and as much of
    `reserve_s` beforehand. A policy is chosen only for a gain of `least_gain` of throughput.
    A change costs the pages that it reads anew, at least `switch_share` of the page cache. A lead
    counts as far as it exceeds `sigmas` sampling errors of differences summed over `half_life_s`;
    measured is held against predicted over `calibration_half_life_s`.
    A change is confirmed when what it measurably gained exceeds `sigmas` standard errors,
    and undone when by then it should have gained `undo_times` what it cost.
    """

    loss_share: float = 0.01
    reserve_s: float = 1800.0
    least_gain: float = 0.02
    switch_share: float = 0.25
    half_life_s: float = 20.0
    calibration_half_life_s: float = 40.0
    sigmas: float = 2.0
    undo_times: float = 4.0

    def __post_init__(self) -> None:
        check_ranges("decide", self, RANGES)
