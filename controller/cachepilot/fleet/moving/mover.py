# SPDX-License-Identifier: Apache-2.0
"""Executes rollouts: observes nodes, takes a step, stores it, and only then gives its order.

A rollout executes a consolidation plan by moves of tenants to other nodes. It either drains nodes,
or spreads tenants of nodes that are short of memory. The provider is the orchestrator that starts
and stops workloads; it executes the orders.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from cachepilot.domain.consolidation import Drain, Move, Plans, Rest
from cachepilot.domain.moving import Moved, MoveState, Rollout, Warmth
from cachepilot.domain.past.actor import acting
from cachepilot.domain.units import BYTES_MAX, DAY_S
from cachepilot.errors import ConflictError, InputError
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.moving import preparing, transitions
from cachepilot.fleet.moving.judging import WINDOWS
from cachepilot.fleet.moving.pinning import Pins
from cachepilot.fleet.moving.provider import MoveError, Provider
from cachepilot.fleet.moving.rehearsing import SETTLED_S, nodes_of
from cachepilot.fleet.moving.replan import new_changes, replanned, rest_of
from cachepilot.fleet.moving.seen.looking import FleetSeen, fleet_seen, node_seen
from cachepilot.fleet.moving.seen.observation import Act, Observation, Order, Step
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS, is_watched, lost_s
from cachepilot.fleet.moving.seen.whereabouts import Whereabouts, whereabouts
from cachepilot.fleet.moving.step import step
from cachepilot.fleet.tenants.homes import homes_of, where_now
from cachepilot.node.shown.changes import Topic
from cachepilot.node.shown.report import Report
from cachepilot.store.failures import StoreFailedError

LOG = logging.getLogger(__name__)
MOVES_MAX = 100_000
REFUTED_MAX = 10_000
"""How many of the limits that rehearsals refuted are passed on to the next rollout."""
HOMES_MAX = 100_000
"""For how many tenants the node on which they were before a drain is remembered."""
CLOSED_S = 3600.0
"""Seconds for which no tenant is spread to a node after a move to it could not be made, or was
undone."""
MOST = {
    "limit_bytes": BYTES_MAX,
    "need_bytes": BYTES_MAX,
    "cold_pages": BYTES_MAX,
    "cold_s": 86_400.0,
    "predicted_ops": BYTES_MAX,
    "peak_bytes": BYTES_MAX,
    "peak_s": 1e11,
    "cpus": BYTES_MAX,
}
"""The greatest allowed values of those numbers of a move that come from a plan."""
NO_PROVIDER = (
    "consolidation: no program moves tenants (allowed: with [consolidation] folder in the"
    " controller's configuration)"
)


def _require_in_range(move: Move) -> None:
    """Raise InputError for numbers that no plan contains."""
    for key, most in MOST.items():
        value = getattr(move, key)
        if value is not None and not 0 <= value <= most:
            where = f"consolidation: {move.cgroup}: {key}"
            raise InputError(f"{where}: {value} (allowed: 0 to {most:g})")


class Mover:
    """The last rollout, and the provider that moves tenants; safe to call from any thread.

    While tenants are judged, their limits and policies are pinned to the planned ones.
    """

    def __init__(
        self, fleet: Fleet, provider: Provider | None, clock: Callable[[], float] | None = None
    ) -> None:
        self._fleet, self._provider, self._pins = fleet, provider, Pins(fleet)
        self._now_s = fleet.store.now_s if clock is None else clock
        self._lock = threading.Lock()
        self._refused = ""
        self._warmth: Warmth | None = None
        self._ticked_s: float | None = None
        self._is_unstored = False
        self.plan: Callable[[Rest, Sequence[Report]], Plans] | None = None
        """Plans the rest of a rollout with the given nodes; None: it goes on as first planned."""
        self._rollout = fleet.store.last_rollout()

    @property
    def refuted(self) -> dict[tuple[str, str], int]:
        """Return the least bytes that tenants need, by node and cgroup, from recent rehearsals.

        Only rehearsals of the last day count. The node is the one on which the tenant is now.
        """
        known = () if self._rollout is None else self._rollout.refuted
        since_s, found = self._now_s() - DAY_S, dict[tuple[str, str], int]()
        homes = homes_of(self._fleet.loops(), {one.cgroup for one in known})
        for one in (one for one in known if one.time_s >= since_s):
            for node in where_now(one.node, one.cgroup, homes):
                least = max(found.get((node, one.cgroup), 0), one.least_bytes)
                found[node, one.cgroup] = least
        return found

    @property
    def now_s(self) -> float:
        """The time of the clock for rollouts, in seconds since 1970."""
        return self._now_s()

    @property
    def interval_s(self) -> float:
        """Seconds between two windows of measurement."""
        return self._fleet.config.interval_ms / 1000

    @property
    def rollout(self) -> Rollout | None:
        """The last rollout; None before the first."""
        return self._rollout

    @property
    def homes(self) -> dict[str, str]:
        """The nodes on which tenants were before they were drained, by cgroup."""
        return {} if self._rollout is None else self._rollout.came_from

    @property
    def closed(self) -> dict[str, float]:
        """Nodes to which no tenant is spread at present, and since when (seconds since 1970)."""
        known = () if self._rollout is None else self._rollout.closed
        return {node: time_s for node, time_s in known if time_s > self._now_s() - CLOSED_S}

    def movable(self) -> Callable[[str, str], bool]:
        """Return a function that says whether a tenant can leave a node.

        It can if the provider has the tenant on that node. The function returns True for every
        tenant if there is no provider or if the provider fails: then the error appears at the time
        of the move.
        """
        if self._provider is None:
            return lambda *_: True
        try:
            placed = self._provider.placed()
        except MoveError:
            return lambda *_: True
        return lambda node, cgroup: placed.get(cgroup) == node

    def begin(self, drains: Sequence[Drain], spreads: bool = False) -> Rollout:
        """Begin a rollout that moves tenants off nodes in this order; stored before this returns.

        If `spreads` is False, nodes are drained, and each drain is rehearsed first, because the
        tenants that stay get less memory afterwards.

        Raises ConflictError while another rollout runs, or if a tenant is not on the node that it
        is to leave; InputError without a provider, or for drains that cannot be executed.
        """
        if self._provider is None:
            raise InputError(NO_PROVIDER)
        moves = tuple(Moved(move, drain.node) for drain in drains for move in drain.moves)
        with self._lock:
            self._require_possible(moves)
            number = 1 if self._rollout is None else self._rollout.id + 1
            known = () if self._rollout is None else self._rollout.refuted
            begun = Rollout(
                number, self._now_s(), acting().name, moves, rehearses=not spreads,
                refuted=known[-REFUTED_MAX:], spreads=spreads,
                homes=tuple(self.homes.items())[-HOMES_MAX:], closed=tuple(self.closed.items()),
                preparing_s=self._fleet.config.preparing_s,
            )  # fmt: skip
            self._fleet.store.save_rollout(begun)
            self._rollout, self._refused, self._warmth = begun, "", None
        LOG.info("rollout %d: %d moves, by %s", number, len(moves), begun.by)
        self._fleet.changes.tell(Topic.DECISIONS)
        return begun

    def _require_possible(self, moves: Sequence[Moved]) -> None:
        running = self._rollout
        if running is not None and not running.is_over:
            raise ConflictError(
                f"consolidation: rollout {running.id} runs (allowed: stop it first)"
            )
        if not 0 < len(moves) <= MOVES_MAX:
            allowed = f"1 to {MOVES_MAX} moves"
            raise InputError(f"consolidation: {len(moves)} moves (allowed: {allowed})")
        loops, seen = self._fleet.loops(), set()
        drained = {one.move.from_node for one in moves}
        for drain, one in ((moved.drain, moved.move) for moved in moves):
            for node in (one.from_node, one.to_node):
                if node not in loops:
                    raise InputError(f"consolidation: node {node}: unknown")
            if one.from_node == one.to_node or one.cgroup in seen:
                raise InputError(
                    f"consolidation: {one.cgroup}: a tenant moves once, to another node"
                )
            if one.from_node != drain or one.to_node in drained:
                allowed = "allowed: from the node that is drained to one that is not"
                told = f"{one.cgroup}: goes from {one.from_node} to {one.to_node}"
                raise InputError(f"consolidation: {told} ({allowed})")
            seen.add(one.cgroup)
            _require_in_range(one)
            where = None if self._provider is None else self._provider.where(one.cgroup)
            if where != one.from_node:
                told = f"is on {where or 'no node'}, not on {one.from_node}"
                raise ConflictError(f"consolidation: {one.cgroup} {told}")

    def stop(self) -> Rollout:
        """End the rollout: undo a move that is not confirmed yet, and make no later ones.

        Raises ConflictError if no rollout runs.
        """
        with self._lock:
            running = self._rollout
            if running is None or running.is_over:
                raise ConflictError("consolidation: no rollout runs")
            self._rollout = replace(running, is_stopping=True)
            # The return home must begin even if the stop cannot be stored now.
            self._save(self._rollout)
        return self._rollout

    def tick(self) -> None:
        """Take one step if a rollout runs; failures of nodes and of the store do not raise."""
        with self._lock:
            if self._ticked_s is None:
                self._drop_left()
            if self._is_unstored and self._rollout is not None:
                self._save(self._rollout)
            watched = self._watched()
        self._plan_again(watched)
        with self._lock:
            rollout = self._rollout
            self._pins.hold(rollout)
            moved = None if rollout is None or rollout.is_over else rollout.present
            if rollout is None or moved is None:
                return
            found = step(rollout, self._look(rollout, moved))
            if found.rollout == rollout and found.order is None:
                return
            if not self._store(rollout, found):
                return
            self._rollout = found.rollout
            self._pins.hold(found.rollout)
            self._order(found.order)
        for event in found.events:
            LOG.info("rollout %d: %s", found.rollout.id, event)
        if found.events:
            self._fleet.changes.tell(Topic.DECISIONS)

    def _drop_left(self) -> None:
        """Drop page caches that were read for a rollout which ended before they were dropped.

        The previous controller ended in between.
        """
        if self._rollout is None or not self._rollout.is_over:
            return
        for one in self._rollout.moves:
            if one.prepared_s is not None and one.state is not MoveState.KEPT:
                self._order(preparing.order_of(one, Act.DROP))

    def _watched(self) -> Rollout | None:
        """Return the rollout, with time-outs extended by time in which nobody watched it.

        Such a gap occurs while no controller runs, and by a step of the clock.
        """
        now_s, before_s = self._now_s(), self._ticked_s
        self._ticked_s = now_s
        was = before_s is not None and is_watched(now_s - before_s, self.interval_s)
        if self._rollout is not None and self._rollout.since_s and not was:
            self._rollout = preparing.unwatched(self._rollout, now_s)
        return self._rollout

    def _plan_again(self, running: Rollout | None) -> None:
        """Plan the rest of a rollout with the latest measurements before it goes on."""
        if running is None or running.is_over or running.is_planned or running.is_stopping:
            return
        if self._is_unstored:
            return  # The new plan could not be stored, and so could not be started.
        names = {node for one in running.moves for node in (one.drain, one.move.to_node)}
        seen = fleet_seen(sorted(names), self._fleet.loops())
        there = whereabouts(running, seen.nodes, self._where)
        now_s = self._now_s()
        since_s = running.since_s or now_s
        may_wait = self.plan is not None and now_s - since_s <= lost_s(self.interval_s)
        if there.waits and may_wait:
            name, why = next(iter(there.waits.items()))
            found = replace(running, since_s=since_s, why=f"node {name}: {why}")
        else:
            found = self._planned(running, seen, there)
        with self._lock:
            # An operator may have stopped the rollout during the planning.
            if self._rollout is not running or found == running or not self._save(found):
                return
            self._rollout = found
            self._pins.hold(found)
        for change in new_changes(running, found):
            LOG.info("rollout %d: %s", found.id, change)
        if found.is_planned:
            self._fleet.changes.tell(Topic.DECISIONS)

    def _planned(self, running: Rollout, seen: FleetSeen, there: Whereabouts) -> Rollout:
        windows_s = (BEFORE_WINDOWS + WINDOWS) * self.interval_s
        as_it_is = replace(running, is_planned=True, since_s=0.0, why="")
        if self.plan is None:
            return as_it_is
        try:
            plans = self.plan(rest_of(running, there.refused, there.unseen), seen.fresh)
        except InputError as error:
            LOG.warning("rollout %d: goes on as it was planned: %s", running.id, error)
            return as_it_is
        again_s = SETTLED_S + windows_s
        return replanned(running, plans, self._now_s(), again_s, there.refused, there.gone)

    def _where(self, cgroup: str) -> tuple[str | None, str]:
        """Return the node that the provider names, or None, and why it cannot name one."""
        if self._provider is None:
            return None, NO_PROVIDER
        try:
            return self._provider.where(cgroup), ""
        except MoveError as error:
            return None, str(error)

    def _look(self, rollout: Rollout, moved: Moved) -> Observation:
        move, loops = moved.move, self._fleet.loops()
        where, unknown = self._where(move.cgroup)
        names = {move.from_node, move.to_node}
        if moved.state in (MoveState.WAITING, MoveState.REHEARSING):
            names.update(nodes_of(rollout.going(moved.drain)))
        nodes = {name: node_seen(name, loops) for name in sorted(names)}
        operated = self._pins.operated(rollout)
        return Observation(
            self._now_s(), where, unknown, self._refused, nodes, self.interval_s, self._warmth,
            operated,
        )  # fmt: skip

    def _store(self, before: Rollout, found: Step) -> bool:
        """Store a step; return whether it may be taken: it was stored, or may be lost."""
        return self._save(found.rollout) or transitions.may_be_lost(before, found.rollout)

    def _save(self, rollout: Rollout) -> bool:
        """Store the rollout and return whether that worked; if not, `tick` tries again."""
        try:
            self._fleet.store.save_rollout(rollout)
        except StoreFailedError as error:
            if not self._is_unstored:
                LOG.error("rollout %d: %s", rollout.id, error)
            self._is_unstored = True
            return False
        self._is_unstored = False
        return True

    def _order(self, order: Order | None) -> None:
        self._refused, self._warmth = "", None
        if order is None or self._provider is None:
            return
        way = (order.cgroup, order.from_node, order.to_node)
        try:
            match order.act:
                case Act.MOVE:
                    self._provider.move(*way)
                case Act.WARM:
                    self._warmth = self._provider.warm(*way, order.most_bytes)
                case Act.DROP:
                    self._provider.drop(order.cgroup)
        except MoveError as error:
            self._refused = str(error)
            LOG.error("rollout: %s", error)
