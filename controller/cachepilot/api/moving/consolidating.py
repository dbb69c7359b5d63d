# SPDX-License-Identifier: Apache-2.0
"""Consolidations that are carried out: implements `Moving`."""

from collections.abc import Callable

from cachepilot.api.moving.rehearsals import rollout_view
from cachepilot.api.shapes.questions import Consolidation
from cachepilot.api.shapes.rollout import Consolidate, RolloutView
from cachepilot.domain import consolidation as domain
from cachepilot.domain.moving import Rollout
from cachepilot.errors import InputError
from cachepilot.fleet.moving.mover import Mover


class Consolidating:
    """Begins, shows and stops rollouts; `planned` is the consolidation as it is planned now."""

    def __init__(self, mover: Mover, planned: Callable[[], Consolidation]) -> None:
        self._mover, self._planned = mover, planned

    def begin(self, asked: Consolidate) -> RolloutView:
        """Begins to drain what is asked, else what is planned now."""
        drains = self._planned().drains if asked.drains is None else asked.drains
        wanted = [one for one in drains if asked.node in (None, one.node)]
        if not wanted:
            known = ", ".join(one.node for one in drains) or "none"
            what = "no node" if asked.node is None else f"node {asked.node}"
            raise InputError(f"consolidation: {what} can be drained (allowed: {known})")
        told = [
            domain.Drain(
                one.node,
                tuple(domain.Move(**move.model_dump()) for move in one.moves),
                one.freed_bytes,
            )
            for one in wanted
        ]
        return self._shown(self._mover.begin(told))

    def rollout(self) -> RolloutView | None:
        """The last rollout; None before the first."""
        found = self._mover.rollout
        return None if found is None else self._shown(found)

    def stop(self) -> RolloutView:
        """Stops the rollout that runs; ConflictError when none does."""
        return self._shown(self._mover.stop())

    def _shown(self, rollout: Rollout) -> RolloutView:
        return rollout_view(rollout, self._mover.now_s, self._mover.interval_s)
