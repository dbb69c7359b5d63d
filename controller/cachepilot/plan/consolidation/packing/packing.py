# SPDX-License-Identifier: Apache-2.0
"""The result of a packing."""

from dataclasses import dataclass

from cachepilot.plan.consolidation.packing.loads import Loads


@dataclass(frozen=True)
class Packing:
    """The nodes that are drained, where each of their tenants goes, and the loads afterwards.

    Nodes and tenants are indices.
    """

    drained: tuple[int, ...]
    to: dict[int, int]
    loads: Loads
