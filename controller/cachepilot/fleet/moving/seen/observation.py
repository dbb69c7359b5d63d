# SPDX-License-Identifier: Apache-2.0
"""What a rollout is shown at one time, and what it orders; values alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cachepilot.domain.moving import Rollout, Warmth
from cachepilot.fleet.moving.seen.patience import lost_looks, lost_s, return_s


@dataclass(frozen=True)
class SloSeen:
    """An SLO in the last interval; `met` is None where nothing was measured."""

    kind: str
    target: float
    met: bool | None


@dataclass(frozen=True)
class TenantSeen:
    """A tenant in the last interval: operations/s, None where it did nothing, and its SLOs.

    Without an SLO it keeps the share `keep` of what it did. `is_full` says that its page cache
    fills its limit of `limit_bytes`; `held_bytes` is what it holds, and `missed_pages` what it had
    to read.
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
    """A node at its last snapshot, at `time_s` of its own; `lost` says why none comes."""

    time_s: float
    tenants: Mapping[str, TenantSeen]
    lost: str = ""


@dataclass(frozen=True)
class Observation:
    """What is known at `now_s` of the tenant of the present move, and of both its nodes.

    `where` is the node that the provider names, None where there is none; `unknown` says why it
    cannot tell, `refused` why the last order was not carried out, and `warmth` what came of the
    last one to read a page cache. Nodes tell something once in `interval_s`.
    """

    now_s: float
    where: str | None
    unknown: str
    refused: str
    nodes: Mapping[str, NodeSeen]
    interval_s: float = 1.0
    warmth: Warmth | None = None

    @property
    def lost_s(self) -> float:
        """So long nothing may be measured, or a tenant take to appear."""
        return lost_s(self.interval_s)

    @property
    def lost_looks(self) -> int:
        """So many snapshots in a row may lack a tenant before it counts as gone."""
        return lost_looks(self.interval_s)

    @property
    def return_s(self) -> float:
        """So long it is tried to move a tenant back."""
        return return_s(self.interval_s)


class Act(StrEnum):
    """What is ordered: to move a tenant, to read its page cache on its target, to drop that."""

    MOVE = "move"
    WARM = "warm"
    DROP = "drop"


@dataclass(frozen=True)
class Order:
    """What the provider is to do; to `WARM` means `most_bytes` of the page cache at most."""

    cgroup: str
    from_node: str
    to_node: str
    act: Act = Act.MOVE
    most_bytes: int = 0


@dataclass(frozen=True)
class Step:
    """What comes of one look: the rollout from now on, an order, and what is told of it."""

    rollout: Rollout
    order: Order | None = None
    events: tuple[str, ...] = ()
