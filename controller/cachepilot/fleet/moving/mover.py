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
from cachepilot.domain.units import BYTES_MAX, DAY_S
from cachepilot.errors import ConflictError, InputError
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.moving import holding
from cachepilot.fleet.moving.checks import LOOKS_MAX
from cachepilot.fleet.moving.looking import node_seen
from cachepilot.fleet.moving.observation import Observation, Order, Step
from cachepilot.fleet.moving.provider import MoveError, Provider
from cachepilot.fleet.moving.rehearsing import going, nodes_of
from cachepilot.fleet.moving.replan import replanned
from cachepilot.fleet.moving.step import LOST_S, step, warm_after_s
from cachepilot.node.shown.changes import Topic
from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.sizes import PAGE_BYTES, pages_up
from cachepilot.store.failures import StoreFailedError

LOG = logging.getLogger(__name__)
LEFT = "rollout: %s: its limit and policy are left to the planner: %s"
MOVES_MAX = 100_000
REFUTED_MAX = 10_000
"""So many of what rehearsals refuted are passed on to the next rollout."""
MOST = {
    "limit_bytes": BYTES_MAX,
    "cold_pages": BYTES_MAX,
    "cold_s": 86_400.0,
    "predicted_ops": BYTES_MAX,
    "peak_bytes": BYTES_MAX,
    "peak_s": 1e11,
}
"""Of the numbers of a move, those that are told."""
NO_PROVIDER = (
    "consolidation: nobody moves tenants (allowed: with [consolidation] folder in the controller's"
    " configuration)"
)


def _require_in_range(move: Move) -> None:
    """Raises InputError for numbers that no plan has."""
    for key, most in MOST.items():
        value = getattr(move, key)
        if value is not None and not 0 <= value <= most:
            where = f"consolidation: {move.cgroup}: {key}"
            raise InputError(f"{where}: {value} (allowed: 0 to {most:g})")


class Mover:
    """The last rollout, and whoever moves tenants; safe to call from any thread.

    While tenants are judged their limits and policies are pinned to what the plan counted with.
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
        self.plan: Callable[[Rollout], Sequence[Drain]] | None = None
        """Plans what is left of a rollout; None where it goes on as it began."""
        self._rollout = fleet.store.last_rollout()

    @property
    def refuted(self) -> dict[str, int]:
        """By cgroup, the bytes that tenants need at least by what rehearsals of a day refuted."""
        known = () if self._rollout is None else self._rollout.refuted
        since_s, found = self._now_s() - DAY_S, dict[str, int]()
        for one in known:
            if one.time_s >= since_s:
                found[one.cgroup] = max(found.get(one.cgroup, 0), one.least_bytes)
        return found

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
            known = () if self._rollout is None else self._rollout.refuted
            begun = Rollout(
                number, self._now_s(), acting().name, moves, rehearses=True,
                refuted=known[-REFUTED_MAX:],
            )  # fmt: skip
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
        self._plan_again()
        with self._lock:
            if self._is_unstored and self._rollout is not None:
                self._save(self._rollout)
            rollout = self._watched()
            moved = None if rollout is None or rollout.is_over else rollout.present
            if rollout is None or moved is None:
                return
            # A controller that starts again holds what the one before did.
            self._reserve(rollout)
            found = step(rollout, self._look(rollout, moved))
            if found.rollout == rollout and found.order is None:
                return
            if not self._store(rollout, found):
                return
            self._rollout = found.rollout
            self._hold(rollout, found.rollout)
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

    def _plan_again(self) -> None:
        """Plans what is left of a rollout by what was measured since, before its next drain."""
        running, plan = self._rollout, self.plan
        if running is None or running.is_over or running.is_planned or plan is None:
            return
        try:
            found = replanned(running, plan(running), self._now_s())
        except InputError as error:
            LOG.warning("rollout %d: goes on as it was planned: %s", running.id, error)
            found = replace(running, is_planned=True)
        with self._lock:
            # It may have been stopped meanwhile.
            if self._rollout is running and self._save(found):
                self._rollout = found
        for change in found.changes[len(running.changes) :]:
            LOG.info("rollout %d: %s", found.id, change)

    def _look(self, rollout: Rollout, moved: Moved) -> Observation:
        move, loops = moved.move, self._fleet.loops()
        where, unknown = None, ""
        try:
            if self._provider is None:
                raise MoveError(NO_PROVIDER)
            where = self._provider.where(move.cgroup)
        except MoveError as error:
            unknown = str(error)
        names = {move.from_node, move.to_node}
        if moved.state is MoveState.REHEARSING:
            names.update(nodes_of(going(rollout, moved.drain)))
        nodes = {name: node_seen(name, loops) for name in sorted(names)}
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

    def _hold(self, before: Rollout, after: Rollout) -> None:
        """Pins limits and policies of those who go, and unpins them once they are judged."""
        was, now = holding.pins(before), holding.pins(after)
        for (cgroup, node), move in now.items():
            if (cgroup, node) not in was:
                self._pin(move, node, after)
        for cgroup, node in was.keys() - now.keys():
            self._unpin(cgroup, node)
        self._reserve(after)

    def _reserve(self, rollout: Rollout | None) -> None:
        """Keeps memory for who is to come; for nobody once that is over."""
        kept = holding.reserves(rollout)
        for name, loop in self._fleet.loops().items():
            loop.reserved = kept.get(name, {})

    def _pin(self, move: Move, node: str, rollout: Rollout) -> None:
        if not self._may_pin(move, node):
            return
        left = [one for one in rollout.moves if one.ended_s is None and one.drain == move.from_node]
        looks_s = 2 * LOOKS_MAX * self._fleet.config.interval_ms / 1000
        each_s = (2 * LOST_S + warm_after_s(one) + looks_s for one in left)
        until_s = self._fleet.store.now_s() + looks_s + sum(each_s)
        limit = max(PAGE_BYTES, pages_up(move.limit_bytes))
        pin = Pin(move.cgroup, node, self._attachable(move, node), limit, until_s)
        try:
            self._fleet.set_pin(pin, can_undo=False)
        except (InputError, StoreFailedError) as error:
            LOG.warning(LEFT, move.cgroup, error)

    def _unpin(self, cgroup: str, node: str) -> None:
        own = [one for one in self._pins(cgroup) if one.until_s is not None]
        if not any(one.node == node for one in own):
            return
        try:
            self._fleet.delete_pin(cgroup, node, can_undo=False)
        except (InputError, StoreFailedError) as error:
            LOG.warning(LEFT, cgroup, error)

    def _pins(self, cgroup: str) -> list[Pin]:
        return [one for one in self._fleet.asked().pins if one.cgroup == cgroup]

    def _attachable(self, move: Move, node: str) -> str | None:
        """The policy that the plan counted with; None where the node cannot attach it."""
        loop = self._fleet.loops().get(node)
        can = (DEFAULT, *(() if loop is None else loop.hello.policies))
        return move.policy if move.policy in can else None

    def _may_pin(self, move: Move, node: str) -> bool:
        """Whether the autopilot decides its limit there: not an operator, by a pin or a mode."""
        mode = self._fleet.asked().objectives.of(move.cgroup).mode
        there = (None, node)
        return mode is Mode.AUTO and not any(one.node in there for one in self._pins(move.cgroup))
