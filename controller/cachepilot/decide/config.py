# SPDX-License-Identifier: Apache-2.0
"""Settings of the decider: budgets, least gain, cost of a change, and chances of error."""

from dataclasses import dataclass

from cachepilot.ranges import Ranges, check_ranges

IDLE_S = 600.0
"""A change for which nothing could be measured for this long is given up."""

RANGES: Ranges = {
    "loss_share": (0.0, 0.5),
    "reserve_s": (0.0, 86_400.0),
    "least_gain": (0.0, 1.0),
    "switch_share": (0.0, 4.0),
    "calibration_half_life_s": (1.0, 3600.0),
    "false_loss_s": (0.0, 60.0),
    "alpha": (1e-6, 0.5),
    "undo_times": (1.5, 100.0),
}


@dataclass(frozen=True)
class DecideConfig:
    """Settings of the decider; times are in seconds of the node's clock.

    All changes of policy together may cost a tenant `loss_share` of what the kernel's default costs
    it. That share of `reserve_s` is granted in advance. A policy is chosen only if it gains
    `least_gain` of throughput. A change from the default, or back to it during a trial, costs at
    least `switch_share` of the page cache. Giving up a confirmed policy costs at least COLLECTED
    (0.35) of it, unless the node reports the pages to read again. Changes that sampling errors
    alone cause may cost `false_loss_s` of the default's misses on average. Predictions are
    calibrated by measurements with the half-life `calibration_half_life_s`. A change that gains
    nothing is confirmed with a chance of `alpha`, over all checks together. A change is undone when
    it is certain, with the same chance of error, that it saves less than 1/`undo_times` of the
    prediction.
    """

    loss_share: float = 0.0025
    reserve_s: float = 4100.0
    least_gain: float = 0.01
    switch_share: float = 0.1
    calibration_half_life_s: float = 40.0
    false_loss_s: float = 0.014
    alpha: float = 0.01
    undo_times: float = 4.0

    def __post_init__(self) -> None:
        check_ranges("decide", self, RANGES)
