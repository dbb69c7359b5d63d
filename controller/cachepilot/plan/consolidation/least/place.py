# SPDX-License-Identifier: Apache-2.0
"""A node, its tenants, and what they need there."""

from dataclasses import dataclass

from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.consolidation.least.needs import Needs, Targets
from cachepilot.plan.consolidation.least.wait_table import WaitTable


@dataclass(frozen=True)
class Place:
    """A node, the SLOs of its tenants, and what they need there."""

    snapshot: Snapshot
    needs: Needs
    table: WaitTable

    @property
    def name(self) -> str:
        """The node's."""
        return self.snapshot.node.name

    @property
    def targets(self) -> Targets:
        """What its tenants must keep."""
        return self.needs.targets

    @property
    def count(self) -> int:
        """How many tenants it has."""
        return len(self.targets.asked.tenants)
