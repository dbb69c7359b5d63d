# SPDX-License-Identifier: Apache-2.0
"""The interface between the HTTP routes and the execution of consolidations."""

from typing import Protocol

from cachepilot.api.shapes.rollout import Consolidate, RolloutView


class Moving(Protocol):
    """Execution of consolidations; safe to call from any thread."""

    def begin(self, asked: Consolidate) -> RolloutView | None:
        """Begin to drain nodes, or to spread their tenants; it is stored before this returns.

        Returns None if no tenant has to move. Raises ConflictError while another rollout runs, or
        if a tenant is not on the node that it is to leave.
        """

    def rollout(self) -> RolloutView | None:
        """Return the last rollout; None before the first."""

    def stop(self) -> RolloutView:
        """Stop the running rollout, which undoes a move that is not confirmed yet."""
