# SPDX-License-Identifier: Apache-2.0
"""The implementation of `Moving`: begins, shows and stops rollouts."""

from collections.abc import Callable

from cachepilot.api.moving.rehearsals import rollout_view
from cachepilot.api.shapes.questions import Consolidation, Spread
from cachepilot.api.shapes.rollout import Consolidate, RolloutView
from cachepilot.domain import consolidation as domain
from cachepilot.domain.moving import Rollout
from cachepilot.errors import InputError
from cachepilot.fleet.moving.mover import Mover


class Consolidating:
    """Begins, shows and stops rollouts; `planned` and `spread` return the present plans."""

    def __init__(
        self,
        mover: Mover,
        planned: Callable[[], Consolidation],
        spread: Callable[[], Spread],
    ) -> None:
        self._mover, self._planned, self._spread = mover, planned, spread

    def begin(self, asked: Consolidate) -> RolloutView | None:
        """Begin a rollout of the given drains, or by default of the present plan.

        Returns None if no tenant has to move, because all the nodes are empty already.
        """
        plan = self._spread if asked.spreads else self._planned
        drains = plan().drains if asked.drains is None else asked.drains
        wanted = [one for one in drains if asked.node in (None, one.node)]
        if not wanted:
            known = ", ".join(one.node for one in drains) or "none"
            can = "has tenants that can leave it" if asked.spreads else "can be drained"
            what = f"no node {can}"
            if asked.node is not None:
                what = f"node: {asked.node}: not one that {can}"
            raise InputError(f"consolidation: {what} (allowed: {known})")
        told = [
            domain.Drain(
                one.node,
                tuple(domain.Move(**move.model_dump()) for move in one.moves),
                one.freed_bytes,
                one.why,
            )
            for one in wanted
            if one.moves
        ]
        if not told:
            return None
        return self._shown(self._mover.begin(told, asked.spreads))

    def rollout(self) -> RolloutView | None:
        """Return the last rollout; None before the first."""
        found = self._mover.rollout
        return None if found is None else self._shown(found)

    def stop(self) -> RolloutView:
        """Stop the running rollout; raise ConflictError if none runs."""
        return self._shown(self._mover.stop())

    def _shown(self, rollout: Rollout) -> RolloutView:
        return rollout_view(rollout, self._mover.now_s, self._mover.interval_s)
