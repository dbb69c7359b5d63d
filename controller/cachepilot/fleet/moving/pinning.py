# SPDX-License-Identifier: Apache-2.0
"""Applies the pins and reserves that `holding` computes for a rollout to the nodes."""

import logging

from cachepilot.domain.consolidation import Move
from cachepilot.domain.moving import Rollout
from cachepilot.domain.objectives.objective import Mode
from cachepilot.domain.objectives.pins import Pin
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.moving import holding
from cachepilot.fleet.moving.checks import LOOKS_MAX
from cachepilot.fleet.moving.seen.patience import lost_s
from cachepilot.fleet.moving.warming import warm_after_s
from cachepilot.node.loop import NodeLoop
from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.store.failures import StoreFailedError

LOG = logging.getLogger(__name__)


class Pins:
    """Limits and policies of tenants, and reserved memory of nodes, that a rollout fixes."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._is_unstored = False

    def hold(self, rollout: Rollout | None) -> None:
        """Make pins and reserves those of the rollout; remove them all once it is over.

        Each call sets the complete state, whatever earlier calls did: the controller may have
        restarted, a pin may have ended, or the store may have failed.
        """
        kept, held = holding.reserves(rollout), holding.pins(rollout)
        loops = self._fleet.loops()
        for name, loop in loops.items():
            loop.reserved = kept.get(name, {})
        pins = [
            self._pin(move, node, loops.get(node), rollout)
            for (cgroup, node), move in held.items()
            if rollout is not None and self._may_pin(cgroup)
        ]
        try:
            self._fleet.hold_pins(pins, self._lost_s)
        except StoreFailedError as error:
            if not self._is_unstored:
                LOG.error("rollout: limits and policies of tenants: %s", error)
            self._is_unstored = True
        else:
            self._is_unstored = False

    def operated(self, rollout: Rollout) -> frozenset[str]:
        """Return the tenants that the rollout would hold if operators did not decide their limits.

        An operator decides by a pin, or by the mode of the objective.
        """
        stated = (pin for pin in self._fleet.asked().pins if pin.rollout is None)
        pinned = {(pin.cgroup, pin.node) for pin in stated}
        return frozenset(
            cgroup
            for cgroup, node in holding.pins(rollout)
            if not self._may_pin(cgroup) or pinned & {(cgroup, node), (cgroup, None)}
        )

    @property
    def _lost_s(self) -> float:
        return lost_s(self._fleet.config.interval_ms / 1000)

    def _pin(self, move: Move, node: str, loop: NodeLoop | None, rollout: Rollout) -> Pin:
        left = [one for one in rollout.moves if one.ended_s is None and one.drain == move.from_node]
        interval_s = self._fleet.config.interval_ms / 1000
        looks_s = 2 * LOOKS_MAX * interval_s
        waits_s = 2 * self._lost_s + rollout.preparing_s
        each_s = (waits_s + warm_after_s(one) + looks_s for one in left)
        until_s = self._fleet.store.now_s() + looks_s + sum(each_s)
        limit, policy = holding.limit_of(move), _attachable(move, loop)
        return Pin(move.cgroup, node, policy, limit, until_s, rollout.id)

    def _may_pin(self, cgroup: str) -> bool:
        """Whether the autopilot decides the limit, and not an operator by the objective's mode."""
        return self._fleet.asked().objectives.of(cgroup).mode is Mode.AUTO


def _attachable(move: Move, loop: NodeLoop | None) -> str | None:
    """Return the planned policy, or None if the node cannot attach it."""
    can = (DEFAULT, *(() if loop is None else loop.hello.policies))
    return move.policy if move.policy in can else None
