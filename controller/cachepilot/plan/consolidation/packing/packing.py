# SPDX-License-Identifier: Apache-2.0
"""What a packing is."""

from dataclasses import dataclass

from cachepilot.plan.consolidation.packing.loads import Loads


@dataclass(frozen=True)
class Packing:
    """Which nodes are drained, by index, where each of their tenants goes, and the loads then."""

    drained: tuple[int, ...]
    to: dict[int, int]
    loads: Loads
