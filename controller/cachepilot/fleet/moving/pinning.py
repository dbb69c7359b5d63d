# SPDX-License-Identifier: Apache-2.0
"""Pins and reserves of a rollout: what `holding` says, made so on the nodes."""

import logging

from cachepilot.domain.consolidation import Move
from cachepilot.domain.moving import Rollout
from cachepilot.domain.objectives.objective import Mode
from cachepilot.domain.objectives.pins import Pin
from cachepilot.errors import InputError
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.moving import holding
from cachepilot.fleet.moving.checks import LOOKS_MAX
from cachepilot.fleet.moving.seen.patience import lost_s
from cachepilot.fleet.moving.warming import warm_after_s
from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.store.failures import StoreFailedError

LOG = logging.getLogger(__name__)
LEFT = "rollout: %s: its limit and policy are left to the planner: %s"


class Pins:
    """Limits and policies of tenants, and memory of nodes, that a rollout holds fast."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def hold(self, before: Rollout, after: Rollout) -> None:
        """Pins limits and policies of those who go, and unpins them once they are judged."""
        was, now = holding.pins(before), holding.pins(after)
        for (cgroup, node), move in now.items():
            if (cgroup, node) not in was:
                self._pin(move, node, after)
        for cgroup, node in was.keys() - now.keys():
            self._unpin(cgroup, node)
        self.reserve(after)

    def reserve(self, rollout: Rollout | None) -> None:
        """Keeps memory for who is to come; for nobody once that is over."""
        kept = holding.reserves(rollout)
        for name, loop in self._fleet.loops().items():
            loop.reserved = kept.get(name, {})

    def _pin(self, move: Move, node: str, rollout: Rollout) -> None:
        if not self._may_pin(move, node):
            return
        left = [one for one in rollout.moves if one.ended_s is None and one.drain == move.from_node]
        interval_s = self._fleet.config.interval_ms / 1000
        looks_s = 2 * LOOKS_MAX * interval_s
        waits_s = 2 * lost_s(interval_s) + rollout.preparing_s
        each_s = (waits_s + warm_after_s(one) + looks_s for one in left)
        until_s = self._fleet.store.now_s() + looks_s + sum(each_s)
        limit = holding.limit_of(move)
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
