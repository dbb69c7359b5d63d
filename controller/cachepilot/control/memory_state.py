# SPDX-License-Identifier: Apache-2.0
"""Memory of one node that is under way: on trial, or on its way back."""

from dataclasses import dataclass, field

from cachepilot.control.memory_gain import Patience
from cachepilot.control.memory_trial import MemoryTrial, Origin


@dataclass
class MemoryState:
    """What is under way on one node; outlives a restart.

    `restore` are limits on their way back, for `restore_cycles` so far; `absent` are those of
    tenants that are gone, which go back when the same cgroup is seen again.
    """

    trial: MemoryTrial | None = None
    restore: dict[str, Origin] = field(default_factory=dict)
    restore_cycles: int = 0
    absent: dict[str, Origin] = field(default_factory=dict)
    patience: Patience = field(default_factory=Patience)

    def move_back(self, seconds: float) -> None:
        """With a clock that went back so far."""
        self.patience.move_back(seconds)
        if self.trial is not None:
            self.trial.move_back(seconds)
