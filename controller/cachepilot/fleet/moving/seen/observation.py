# SPDX-License-Identifier: Apache-2.0
"""What a rollout observes at one time, and what it orders; plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cachepilot.domain.moving import Rollout, Warmth
from cachepilot.fleet.moving.seen.patience import lost_looks, lost_s, return_s


@dataclass(frozen=True)
class SloSeen:
    """An SLO in the last interval; `met` is None if nothing was measured."""

    kind: str
    target: float
    met: bool | None


@dataclass(frozen=True)
class TenantSeen:
    """A tenant in the last interval: operations/s (None if it did nothing) and its SLOs.

    Without an SLO, it must keep the share `keep` of its earlier throughput. `is_full` says that its
    page cache fills its limit of `limit_bytes`. `held_bytes` is its used memory, and `missed_pages`
    the pages that it had to read.
    """

    ops: float | None
    slos: tuple[SloSeen, ...]
    keep: float
    is_full: bool
    limit_bytes: int
    held_bytes: int
    missed_pages: int = 0


@dataclass(frozen=True)
class NodeSeen:
    """A node at its last snapshot, taken at `time_s` of the node's clock.

    `lost` says why no snapshots come; it is "" if they do.
    """

    time_s: float
    tenants: Mapping[str, TenantSeen]
    lost: str = ""


@dataclass(frozen=True)
class Observation:
    """What is known at `now_s` of the tenant of the present move, and of the nodes.

    `where` is the node that the provider names, or None; `unknown` says why it cannot name one.
    `refused` says why the last order was not carried out. `warmth` is the progress of the last
    order to read a page cache. Nodes report once in `interval_s`. Operators decide the limits of
    the tenants in `operated`, so that the rollout does not set them.
    """

    now_s: float
    where: str | None
    unknown: str
    refused: str
    nodes: Mapping[str, NodeSeen]
    interval_s: float = 1.0
    warmth: Warmth | None = None
    operated: frozenset[str] = frozenset()

    @property
    def lost_s(self) -> float:
        """Seconds without a measurement, or without an arrival, until a move is given up."""
        return lost_s(self.interval_s)

    @property
    def lost_looks(self) -> int:
        """How many snapshots in a row may lack a tenant before it counts as gone."""
        return lost_looks(self.interval_s)

    @property
    def return_s(self) -> float:
        """For how many seconds a rollback is tried."""
        return return_s(self.interval_s)


class Act(StrEnum):
    """The kinds of orders: move a tenant, read its page cache on the target, or drop that."""

    MOVE = "move"
    WARM = "warm"
    DROP = "drop"


@dataclass(frozen=True)
class Order:
    """An order for the provider; `WARM` reads at most `most_bytes` of the page cache."""

    cgroup: str
    from_node: str
    to_node: str
    act: Act = Act.MOVE
    most_bytes: int = 0


@dataclass(frozen=True)
class Step:
    """The outcome of one observation: the next rollout, an order, and events for the log."""

    rollout: Rollout
    order: Order | None = None
    events: tuple[str, ...] = ()
