# SPDX-License-Identifier: Apache-2.0
"""The operator's settings of consolidation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from cachepilot.domain.snapshot import Node
from cachepilot.errors import InputError

SPARE_NODES_MAX = 1
HEADROOM_HOURS_MAX = 24
LOOKAHEAD_HOURS = 2
"""Long enough to move some dozen tenants, a minute or two each, before they grow."""


@dataclass(frozen=True)
class Options:
    """Settings of consolidation.

    `spare_nodes`: this many nodes may fail afterwards, and their tenants still fit on the others.

    `labels`: labels for nodes whose names match a glob; affinities may name them.

    `cpus`: CPUs for nodes whose names match a glob, the first that matches; otherwise those that
    the node reports.

    `headroom_hours`: a node keeps room for what its tenants needed in this many past hours.

    `lookahead_hours`: tenants are spread before they need what they needed a day ago, in this many
    hours from this time of the day on.

    `drainable`: the only nodes that may be drained; None for all.

    `closed`: nodes that take no tenants in.

    `staying`: tenants that cannot be moved, by node and cgroup.
    """

    spare_nodes: int = 0
    headroom_hours: float = HEADROOM_HOURS_MAX
    lookahead_hours: float = LOOKAHEAD_HOURS
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    cpus: Mapping[str, float] = field(default_factory=dict)

    drainable: frozenset[str] | None = None

    closed: frozenset[str] = frozenset()

    staying: frozenset[tuple[str, str]] = frozenset()

    def __post_init__(self) -> None:
        if not 0 <= self.spare_nodes <= SPARE_NODES_MAX:
            allowed = f"allowed: 0 to {SPARE_NODES_MAX}"
            raise InputError(f"spare_nodes: {self.spare_nodes} is out of range ({allowed})")
        for key in ("headroom_hours", "lookahead_hours"):
            hours = getattr(self, key)
            if not 0 <= hours <= HEADROOM_HOURS_MAX:
                told = f"{key}: {hours} is out of range"
                raise InputError(f"{told} (allowed: 0 to {HEADROOM_HOURS_MAX})")

    def may_drain(self, node: str) -> bool:
        """Whether a node may be drained."""
        return self.drainable is None or node in self.drainable

    def cpus_of(self, node: Node) -> float:
        """The CPUs of a node; inf if not known."""
        known = math.inf if node.cpus is None else node.cpus
        found = (count for glob, count in self.cpus.items() if fnmatchcase(node.name, glob))
        return next(found, known)

    def labels_of(self, node: str) -> tuple[str, ...]:
        """The labels of a node, sorted."""
        found = (names for glob, names in self.labels.items() if fnmatchcase(node, glob))
        return tuple(sorted({label for names in found for label in names}))
