# SPDX-License-Identifier: Apache-2.0
"""What a fleet needs at least, and which of its nodes the others could take over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LeastMemory:
    """The least memory of one tenant that keeps its SLOs, or what it does now without any.

    `has_slo`: it has an SLO. `known`: it is known what it needs, which it is not where curves or
    readings are missing. `kept`: what it needs can be had at all, if that is known.
    `more_of_this_kind`: how many more like it fit on its node, by memory, device and CPUs. In the
    last day it needed `peak_bytes` at most, since `peak_s`, seconds since 1970; None where that is
    now. It needs `cpus` now, as stated or else as measured; None where that is not known.
    """

    node: str
    cgroup: str
    policy: str
    limit_bytes: int
    least_policy: str
    least_bytes: int
    has_slo: bool
    known: bool
    kept: bool
    more_of_this_kind: int
    note: str = ""
    """What is said of the row, in words that follow from its numbers."""
    peak_bytes: int = 0
    peak_s: float | None = None
    cpus: float | None = None


@dataclass(frozen=True)
class Move:
    """A tenant that goes to another node; all that is said of it there is predicted.

    `limit_bytes` is the memory that it gets there, as it needs it, or else needs only `need_bytes`
    of that; None where it needs all. `policy` is the one that this counts with;
    `predicted_ops` are its operations/s there once its page cache is warm, 0 where not known. It
    has to read `cold_pages` again until then, which takes `cold_s` seconds on the target's device.
    Room is left for the `peak_bytes` that it would have needed there since `peak_s`, seconds since
    1970, the most of the last day; None where that is what it needs now. It needs `cpus` now, None
    where that is not known.
    """

    cgroup: str
    from_node: str
    to_node: str
    limit_bytes: int
    policy: str
    predicted_ops: float
    cold_pages: int
    cold_s: float
    why: str = ""
    """Why it goes there, for a person."""
    peak_bytes: int = 0
    peak_s: float | None = None
    cpus: float | None = None
    need_bytes: int | None = None


@dataclass(frozen=True)
class Drain:
    """A node that tenants leave, with their moves in the order in which they are to be made.

    `freed_bytes` is the memory of the node where all of them leave, as it can be switched off then;
    0 where some stay, and `why` tells why the others go.
    """

    node: str
    moves: tuple[Move, ...]
    freed_bytes: int
    why: str = ""

    @property
    def cold_s(self) -> float:
        """Seconds until all that moved is warm, one move after the other."""
        return sum(move.cold_s for move in self.moves)


@dataclass(frozen=True)
class Consolidation:
    """Least memory per tenant, and the nodes to drain in the order in which that is to be done."""

    nodes: int
    tenants: list[LeastMemory]
    drains: list[Drain]
    notes: list[str]


@dataclass(frozen=True)
class Spread:
    """Nodes without room for what their tenants need next, those first that are short first.

    Each with the tenants that leave it, as far as there is room for them on other nodes. `left` are
    those that stay short, and of what.
    """

    drains: list[Drain]
    notes: list[str]
    left: dict[str, str]


@dataclass(frozen=True)
class Rest:
    """What is left of a rollout: `drains` as they were ordered, without what was done of them.

    Only those that are `drainable` may be drained, and nodes that are `closed` take nobody in.
    `proven` is, by the node where tenants are and cgroup, the memory with which they met what they
    must keep in a rehearsal.
    `spreads` says that nodes are not drained, but relieved of what they have no room for.
    """

    drains: tuple[Drain, ...]
    drainable: frozenset[str]
    closed: frozenset[str]
    proven: Mapping[tuple[str, str], int]
    spreads: bool = False


@dataclass(frozen=True)
class Plans:
    """What is left, planned by what is measured now.

    `as_ordered` are the drains, tenant by tenant, for which there still is room where they were
    ordered to go; `anew` are the best ones, whatever was ordered. Where tenants are spread, nodes
    that are `left` stay short.
    """

    as_ordered: Sequence[Drain]
    anew: Sequence[Drain]
    left: frozenset[str] = frozenset()
