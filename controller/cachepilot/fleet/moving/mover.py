# SPDX-License-Identifier: Apache-2.0
"""Carries rollouts out: looks, takes a step, stores it, and only then orders what it says."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from cachepilot.domain.consolidation import Drain, Move
from cachepilot.domain.moving import Moved, MoveState, Rollout
from cachepilot.domain.objectives.objective import Mode
from cachepilot.domain.objectives.pins import Pin
from cachepilot.domain.past.actor import acting
from cachepilot.domain.units import BYTES_MAX
from cachepilot.errors import ConflictError, InputError
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.moving.checks import LOOKS_MAX
from cachepilot.fleet.moving.looking import node_seen
from cachepilot.fleet.moving.observation import Observation, Order, Step
from cachepilot.fleet.moving.provider import MoveError, Provider
from cachepilot.fleet.moving.step import LOST_S, step, warm_after_s
from cachepilot.node.shown.changes import Topic
from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.sizes import PAGE_BYTES, pages_up
from cachepilot.store.failures import StoreFailedError

LOG = logging.getLogger(__name__)
MOVES_MAX = 100_000
MOST = {
    "limit_bytes": BYTES_MAX,
    "cold_pages": BYTES_MAX,
    "cold_s": 86_400.0,
    "predicted_ops": BYTES_MAX,
}
"""Of the numbers of a move."""
NO_PROVIDER = (
    "consolidation: nobody moves tenants (allowed: with [consolidation] folder in the controller's"
    " configuration)"
)


def _require_in_range(move: Move) -> None:
    """Raises InputError for numbers that no plan has."""
    for key, most in MOST.items():
        value = getattr(move, key)
        if not 0 <= value <= most:
            where = f"consolidation: {move.cgroup}: {key}"
            raise InputError(f"{where}: {value} (allowed: 0 to {most:g})")


class Mover:
    """The last rollout, and whoever moves tenants; safe to call from any thread.

    While a tenant is judged its limit and its policy on the target are pinned to what the plan
    counted with: it has no curves there yet by which it could be given them.
    """

    def __init__(
        self, fleet: Fleet, provider: Provider | None, clock: Callable[[], float] | None = None
    ) -> None:
        self._fleet, self._provider = fleet, provider
        self._now_s = fleet.store.now_s if clock is None else clock
        self._lock = threading.Lock()
        self._refused = ""
        self._ticked_s: float | None = None
        self._is_unstored = False
        self._rollout = fleet.store.last_rollout()

    @property
    def rollout(self) -> Rollout | None:
        """The last rollout; None before the first."""
        return self._rollout

    def begin(self, drains: Sequence[Drain]) -> Rollout:
        """Begins to drain nodes in this order; it is stored before this returns.

        ConflictError while another rollout runs, or where a tenant is not on the node that it is
        to leave; InputError without a provider, or for drains that cannot be carried out.
        """
        if self._provider is None:
            raise InputError(NO_PROVIDER)
        moves = tuple(Moved(move, drain.node) for drain in drains for move in drain.moves)
        with self._lock:
            self._require_possible(moves)
            number = 1 if self._rollout is None else self._rollout.id + 1
            begun = Rollout(number, self._now_s(), acting().name, moves)
            self._fleet.store.save_rollout(begun)
            self._rollout, self._refused = begun, ""
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
        for one in (moved.move for moved in moves):
            for node in (one.from_node, one.to_node):
                if node not in loops:
                    raise InputError(f"consolidation: node {node}: unknown")
            if one.from_node == one.to_node or one.cgroup in seen:
                raise InputError(
                    f"consolidation: {one.cgroup}: a tenant moves once, to another node"
                )
            seen.add(one.cgroup)
            _require_in_range(one)
            where = None if self._provider is None else self._provider.where(one.cgroup)
            if where != one.from_node:
                told = f"is on {where or 'no node'}, not on {one.from_node}"
                raise ConflictError(f"consolidation: {one.cgroup} {told}")

    def stop(self) -> Rollout:
        """Ends the rollout: a move that is not kept yet is undone, later ones are not made.

        ConflictError when none runs.
        """
        with self._lock:
            running = self._rollout
            if running is None or running.is_over:
                raise ConflictError("consolidation: no rollout runs")
            self._rollout = replace(running, is_stopping=True)
            # Whoever is to go home goes, whether that can be stored or not.
            self._save(self._rollout)
        return self._rollout

    def tick(self) -> None:
        """Takes one step, if a rollout runs; raises nothing that a node or a disk does."""
        with self._lock:
            if self._is_unstored and self._rollout is not None:
                self._save(self._rollout)
            rollout = self._watched()
            moved = None if rollout is None or rollout.is_over else rollout.present
            if rollout is None or moved is None:
                return
            found = step(rollout, self._look(moved))
            if found.rollout == rollout and found.order is None:
                return
            if not self._store(rollout, found):
                return
            self._rollout = found.rollout
            after = found.rollout.moves[rollout.at]
            self._pin(moved, after)
            self._order(found.order)
        for event in found.events:
            LOG.info("rollout %d: %s", found.rollout.id, event)
        if found.events:
            self._fleet.changes.tell(Topic.DECISIONS)

    def _watched(self) -> Rollout | None:
        """The rollout; time in which nobody watched it counts for no time-out.

        It passes while no controller runs, or by a step of the clock.
        """
        now_s, before_s = self._now_s(), self._ticked_s
        self._ticked_s = now_s
        is_watched = before_s is not None and 0 <= now_s - before_s < LOST_S
        if self._rollout is not None and self._rollout.since_s and not is_watched:
            self._rollout = replace(self._rollout, since_s=now_s)
        return self._rollout

    def _look(self, moved: Moved) -> Observation:
        move, loops = moved.move, self._fleet.loops()
        where, unknown = None, ""
        try:
            if self._provider is None:
                raise MoveError(NO_PROVIDER)
            where = self._provider.where(move.cgroup)
        except MoveError as error:
            unknown = str(error)
        nodes = {name: node_seen(name, loops) for name in (move.from_node, move.to_node)}
        return Observation(self._now_s(), where, unknown, self._refused, nodes)

    def _store(self, before: Rollout, found: Step) -> bool:
        """Whether the step may be taken: it is stored, leads back, or is a measurement.

        What was measured may be lost by a restart; what begins or ends may not.
        """
        if self._save(found.rollout):
            return True
        state = found.rollout.moves[before.at].state
        if state in (MoveState.RETURNING, MoveState.RETURNED):
            return True
        is_measurement = state in (MoveState.WAITING, MoveState.WARMING)
        return is_measurement and found.order is None and not found.rollout.is_over

    def _save(self, rollout: Rollout) -> bool:
        """Stores it; what cannot be stored now is stored once that is possible."""
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
        self._refused = ""
        if order is None or self._provider is None:
            return
        try:
            self._provider.move(order.cgroup, order.from_node, order.to_node)
        except MoveError as error:
            self._refused = str(error)
            LOG.error("rollout: %s", error)

    def _pin(self, before: Moved, after: Moved) -> None:
        """Pins limit and policy of a tenant that goes, and unpins it once it is judged."""
        move, is_going = after.move, after.state is MoveState.MOVING
        under_way = (MoveState.MOVING, MoveState.WARMING)
        try:
            if is_going and before.state is MoveState.WAITING and self._may_pin(move):
                looks_s = LOOKS_MAX * self._fleet.config.interval_ms / 1000
                until_s = self._fleet.store.now_s() + 2 * LOST_S + warm_after_s(after) + looks_s
                policy = self._attachable(move)
                limit = max(PAGE_BYTES, pages_up(move.limit_bytes))
                pin = Pin(move.cgroup, move.to_node, policy, limit, until_s)
                self._fleet.set_pin(pin, can_undo=False)
            elif before.state in under_way and after.state not in under_way:
                own = [one for one in self._pins(move.cgroup) if one.until_s is not None]
                if any(one.node == move.to_node for one in own):
                    self._fleet.delete_pin(move.cgroup, move.to_node, can_undo=False)
        except (InputError, StoreFailedError) as error:
            LOG.warning(
                "rollout: %s: its limit and policy are left to the planner: %s", move.cgroup, error
            )

    def _pins(self, cgroup: str) -> list[Pin]:
        return [one for one in self._fleet.asked().pins if one.cgroup == cgroup]

    def _attachable(self, move: Move) -> str | None:
        """The policy that the plan counted with; None where the target cannot attach it."""
        loop = self._fleet.loops().get(move.to_node)
        can = (DEFAULT, *(() if loop is None else loop.hello.policies))
        return move.policy if move.policy in can else None

    def _may_pin(self, move: Move) -> bool:
        """Whether the autopilot decides its limit there: not an operator, by a pin or a mode."""
        mode = self._fleet.asked().objectives.of(move.cgroup).mode
        there = (None, move.to_node)
        return mode is Mode.AUTO and not any(one.node in there for one in self._pins(move.cgroup))
