# SPDX-License-Identifier: Apache-2.0
"""A node and its tenants with what they need there, now and in the last day."""

from dataclasses import dataclass

from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.consolidation.least.needs import Needs, Targets
from cachepilot.plan.consolidation.least.past import Past
from cachepilot.plan.consolidation.least.wait_table import WaitTable


@dataclass(frozen=True)
class Place:
    """A node, the targets of its tenants, and what they need there and needed before."""

    snapshot: Snapshot
    needs: Needs
    table: WaitTable
    past: Past

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.snapshot.node.name

    @property
    def targets(self) -> Targets:
        """What its tenants must keep."""
        return self.needs.targets

    @property
    def count(self) -> int:
        """The number of its tenants."""
        return len(self.targets.asked.tenants)
