# SPDX-License-Identifier: Apache-2.0
"""Settings of the planner: allocator, bounds, costs of change, and the throughput model."""

from dataclasses import dataclass

from cachepilot.errors import InputError
from cachepilot.model.throughput import ModelKind
from cachepilot.ranges import Ranges, check_ranges

RANGES: Ranges = {
    "movement_share": (0, 1),
    "switch_cost": (0, 1),
    "move_cost": (0, 1),
    "tolerance": (0, 1),
    "rounds": (1, 100),
}


@dataclass(frozen=True)
class Config:
    """Settings of the planner; the same for every tenant.

    `movement_share`: the limit of one tenant changes at most by this share of the node's budget per
    cycle, unless its floor, `memory_min` or an exceeded budget requires more.

    `switch_cost`: a change of policy costs this share of the tenant's present throughput.

    `move_cost`: a change of the limit by its own size costs this share of the tenant's present
    throughput; a smaller change costs proportionally less.

    `tolerance`: the allocator stops without a search if the value of its allocation is within this
    distance of the bound, as a share of the present throughput with an idle device.

    `rounds`: the most repetitions of the allocation until it agrees with the load of the device.
    """

    allocator: str = "optimal"
    model: ModelKind = ModelKind.SERVICE
    movement_share: float = 0.05
    switch_cost: float = 0.02
    move_cost: float = 0.01
    tolerance: float = 2e-4
    rounds: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        check_ranges("config", self, RANGES)
        if self.seed < 0:
            raise InputError(f"config: seed: {self.seed} is out of range (allowed: at least 0)")
