# SPDX-License-Identifier: Apache-2.0
"""A fake fleet that carries out orders: node `a` is drained into `b`."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cachepilot.domain.consolidation import Drain, Move, Plans, Rest
from cachepilot.domain.moving import Moved, Rollout, Warmth
from cachepilot.fleet.moving.holding import pins, reserves
from cachepilot.fleet.moving.replan import replanned, rest_of
from cachepilot.fleet.moving.seen.observation import (
    Act,
    NodeSeen,
    Observation,
    Order,
    SloSeen,
    Step,
    TenantSeen,
)
from cachepilot.fleet.moving.step import step

COLD_S = 3.0
LIMIT_BYTES = 4 << 20
FILLS_BYTES_PER_S = 400 * 4096


def move(cgroup: str) -> Move:
    return Move(cgroup, "a", "b", 4096, "default", 100.0, 1000, COLD_S)


def drain(*cgroups: str) -> Drain:
    return Drain("a", tuple(map(move, cgroups)), 1 << 20)


def rollout(*cgroups: str) -> Rollout:
    return Rollout(1, 0.0, "alice", tuple(Moved(move(one), "a") for one in cgroups))


def tenant(ops: float = 100.0, met: bool | None = True, slo: bool = True) -> TenantSeen:
    slos = (SloSeen("throughput_ops", 90.0, met),) if slo else ()
    return TenantSeen(ops, slos, 0.9, False, LIMIT_BYTES, 0)


def as_ordered(rest: Rest) -> Plans:
    """Return the plan that repeats what was ordered."""
    return Plans(rest.drains, rest.drains)


@dataclass
class MovedFleet:
    """Two nodes. Every `tick` is an interval with a snapshot of each node that is not in `lost`."""

    rollout: Rollout
    where: dict[str, str | None]
    there: dict[str, dict[str, TenantSeen]]
    """By node, what each tenant does if it is there."""
    squeezed: dict[str, TenantSeen] = field(default_factory=dict)
    """What tenants do instead while a rehearsal takes memory from them."""
    plan: Callable[[Rest], Plans] = as_ordered
    """Plans the rest of the rollout."""
    rests: list[Rest] = field(default_factory=list)
    """The arguments of all calls of `plan`."""
    kept_limits: set[str] = field(default_factory=set)
    """Tenants whose limits are set by operators."""
    unset_limits: set[str] = field(default_factory=set)
    """Tenants whose planned limits their nodes do not carry out."""
    fills_up_to: int = LIMIT_BYTES
    now_s: float = 1000.0
    interval_s: float = 1.0
    arrived_s: dict[str, float] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    stuck: dict[str, float] = field(default_factory=dict)
    """Nodes whose control cycles fail, with the time of the first failure. They are not lost."""
    hidden: set[str] = field(default_factory=set)
    """Tenants that are missing in snapshots."""
    refusal: str = ""
    refused: str = ""
    reads: list[Warmth | None] = field(default_factory=list)
    """Results of the orders to read a page cache; the last one is repeated."""
    warmth: Warmth | None = None
    crashes: set[int] = field(default_factory=set)
    """Ticks after whose step the controller dies, before it orders what it stored."""
    ticks: int = 0
    orders: list[Order] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    steps: list[Rollout] = field(default_factory=list)

    def _node(self, name: str) -> NodeSeen:
        if name in self.lost:
            return NodeSeen(900.0, {}, "stale")
        seen = {}
        for cgroup, where in self.where.items():
            if where == name and cgroup not in self.hidden:
                here_s = self.now_s - self.arrived_s.get(cgroup, 0.0)
                held = min(self.fills_up_to, int(FILLS_BYTES_PER_S * here_s))
                told = self.there[name][cgroup]
                others = self.kept_limits | self.unset_limits
                is_pinned = (cgroup, name) in pins(self.rollout) and cgroup not in others
                if is_pinned and name not in self.targets:
                    limit = pins(self.rollout)[cgroup, name].limit_bytes
                    told = replace(self.squeezed.get(cgroup, told), limit_bytes=limit)
                elif reserves(self.rollout).get(name) and cgroup in self.squeezed:
                    told = self.squeezed[cgroup]
                seen[cgroup] = replace(told, held_bytes=held)
        return NodeSeen(self.stuck.get(name, self.now_s), seen)

    @property
    def targets(self) -> set[str]:
        """Return the nodes that take tenants in."""
        return {one.move.to_node for one in self.rollout.moves}

    def observation(self) -> Observation:
        present = self.rollout.present
        where = self.where.get(present.move.cgroup) if present else None
        nodes = {name: self._node(name) for name in self.there}
        operated = frozenset(self.kept_limits)
        return Observation(
            self.now_s, where, "", self.refused, nodes, self.interval_s, self.warmth, operated
        )

    def tick(self) -> Step:
        self.now_s += self.interval_s
        if not (self.rollout.is_planned or self.rollout.is_over or self.rollout.is_stopping):
            self.rests.append(rest_of(self.rollout))
            self.rollout = replanned(self.rollout, self.plan(self.rests[-1]), self.now_s)
        found = step(self.rollout, self.observation())
        self.rollout, self.refused, self.warmth = found.rollout, "", None
        self.steps.append(found.rollout)
        self.events += found.events
        self.ticks += 1
        if found.order is not None and self.ticks not in self.crashes:
            self._carry_out(found.order)
        return found

    def _carry_out(self, order: Order) -> None:
        self.orders.append(order)
        if self.refusal:
            self.refused = self.refusal
        elif order.act is Act.WARM:
            self.warmth = self.reads.pop(0) if len(self.reads) > 1 else self.reads[0]
        elif order.act is Act.DROP:
            return
        elif self.where.get(order.cgroup) == order.from_node:
            self.where[order.cgroup] = order.to_node
            self.arrived_s[order.cgroup] = self.now_s

    def play(self) -> Rollout:
        """Tick until the rollout is over, and return it. Raises AssertionError after 2000 ticks."""
        for _ in range(2000):
            if self.rollout.is_over:
                return self.rollout
            self.tick()
        raise AssertionError(f"not over: {self.rollout}")


def fleet(*cgroups: str, **there: dict[str, TenantSeen]) -> MovedFleet:
    """Return a fleet whose tenants on `a` go to `b`, where `/own` is.

    Every tenant is as `tenant` makes it, except for those given by node.
    """
    both = {cgroup: tenant() for cgroup in (*cgroups, "/own")}
    nodes = {name: {**both, **there.get(name, {})} for name in ("a", "b")}
    where: dict[str, str | None] = dict.fromkeys(cgroups, "a")
    return MovedFleet(rollout(*cgroups), {**where, "/own": "b"}, nodes)
