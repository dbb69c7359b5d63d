# SPDX-License-Identifier: Apache-2.0
"""What an operator says of nodes that tenants may move to."""

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

    `spare_nodes`: so many nodes may fail after it, and their tenants still fit on the others.
    `labels`: labels of the nodes whose names match a glob, which affinities may name.
    `cpus`: CPUs of the nodes whose names match a glob, the first that does; else what is measured.
    `headroom_hours`: for so long a node keeps room for what its tenants needed.
    `lookahead_hours`: tenants are spread before they need what they did in so many hours from this
    time on a day ago.
    `drainable`: no others are drained; None for all. `closed`: nodes that take nobody in.
    `staying`: tenants, by node and cgroup, that nobody can move.
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
        """The CPUs of a node; inf where they are not known."""
        known = math.inf if node.cpus is None else node.cpus
        found = (count for glob, count in self.cpus.items() if fnmatchcase(node.name, glob))
        return next(found, known)

    def labels_of(self, node: str) -> tuple[str, ...]:
        """The labels of a node, sorted."""
        found = (names for glob, names in self.labels.items() if fnmatchcase(node, glob))
        return tuple(sorted({label for names in found for label in names}))
