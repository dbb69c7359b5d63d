# SPDX-License-Identifier: Apache-2.0
"""The seam between the HTTP interface and whoever carries a consolidation out."""

from typing import Protocol

from cachepilot.api.shapes.rollout import Consolidate, RolloutView


class Moving(Protocol):
    """Consolidations that are carried out; safe to call from any thread."""

    def begin(self, asked: Consolidate) -> RolloutView | None:
        """Begins to drain nodes, or to spread their tenants; it is stored before this returns.

        None where nobody has to move for it. ConflictError while another rollout runs, or where a
        tenant is not where it is to leave.
        """

    def rollout(self) -> RolloutView | None:
        """The last rollout; None before the first."""

    def stop(self) -> RolloutView:
        """Stops the rollout that runs, which undoes a move that is not kept yet."""
