# SPDX-License-Identifier: Apache-2.0
"""The routes below /api/v1/consolidation that begin, show and stop a rollout."""

from asyncio import to_thread

from fastapi import APIRouter

from cachepilot.api.moving.moving import Moving
from cachepilot.api.shapes.rollout import Consolidate, RolloutView


def add_moving(routes: APIRouter, moving: Moving) -> None:
    """Add the routes over `moving`."""

    @routes.post("/consolidation/apply", tags=["planning"])
    async def begin(asked: Consolidate) -> RolloutView | None:
        """Begins to drain or to spread: the drains that are given, or what is planned now.

        Null where no tenant has to move for it, as the nodes are empty already.
        Refused with 409 while another rollout runs, and if a tenant is not on the node that it is
        to leave.
        """
        return await to_thread(moving.begin, asked)

    @routes.get("/consolidation/rollout", tags=["planning"])
    async def rollout() -> RolloutView | None:
        """The last rollout: its moves, with what was measured before and after each.

        Null before the first.
        """
        return await to_thread(moving.rollout)

    @routes.post("/consolidation/stop", tags=["planning"])
    async def stop() -> RolloutView:
        """Stops the rollout: a move that is not confirmed yet is undone.

        Refused with 409 if none runs.
        """
        return await to_thread(moving.stop)
