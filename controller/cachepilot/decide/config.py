# SPDX-License-Identifier: Apache-2.0
"""How careful the decider is."""

from dataclasses import dataclass

from cachepilot.ranges import Ranges, check_ranges

RANGES: Ranges = {
    "loss_share": (0.0, 0.5),
    "reserve_s": (0.0, 86_400.0),
    "least_gain": (0.0, 1.0),
    "switch_share": (0.0, 4.0),
    "calibration_half_life_s": (1.0, 3600.0),
    "false_loss_s": (0.0, 60.0),
    "alpha": (1e-6, 0.5),
    "undo_times": (1.0, 100.0),
}


@dataclass(frozen=True)
class DecideConfig:
    """Settings of the decider; times are those of the node.

    Changes may cost a tenant `loss_share` of what the kernel's default costs it, and as much of
    `reserve_s` beforehand. A policy is chosen only for a gain of `least_gain` of throughput.
    A change from the default, or back to it during a trial, costs at least `switch_share` of the
    page cache; giving up a confirmed policy costs at least COLLECTED (0.35) of it, unless the node
    tells what is read again. What noise alone makes of a lead may cost `false_loss_s` of the
    default's misses on average; measured is compared with predicted over `calibration_half_life_s`.
    A change that gains nothing is confirmed with a chance of `alpha`, however often it is looked
    at. It is undone when it is as sure that it saves less than one part in `undo_times` of what was
    predicted.
    """

    loss_share: float = 0.0025
    reserve_s: float = 4200.0
    least_gain: float = 0.01
    switch_share: float = 0.1
    calibration_half_life_s: float = 40.0
    false_loss_s: float = 0.014
    alpha: float = 0.01
    undo_times: float = 4.0

    def __post_init__(self) -> None:
        check_ranges("decide", self, RANGES)
