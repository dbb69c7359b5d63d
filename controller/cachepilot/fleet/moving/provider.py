# SPDX-License-Identifier: Apache-2.0
"""Who moves a workload from node to node: an orchestrator, or a folder of definitions."""

from collections.abc import Mapping
from typing import Protocol

from cachepilot.domain.moving import Warmth
from cachepilot.errors import InputError


class MoveError(InputError):
    """A workload that could not be moved, or not be found: one line that says why.

    Nothing is known then of where it is; `Provider.where` tells.
    """


class NoRoomError(MoveError):
    """The storage of the definition is full; the workload is where it was."""


class Provider(Protocol):
    """What a rollout needs of an orchestrator. Safe to call again after a crash."""

    def move(self, cgroup: str, from_node: str, to_node: str) -> None:
        """Ends a workload on one node and starts it on another, where its page cache is cold.

        Returns once that is ordered. MoveError when it cannot be.
        """

    def where(self, cgroup: str) -> str | None:
        """The node that a workload is assigned to; None when there is none.

        MoveError when it cannot be told, or is on several.
        """

    def placed(self) -> Mapping[str, str]:
        """The nodes of all workloads at once, as `where` tells them: by cgroup, of those it can."""

    def warm(self, cgroup: str, from_node: str, to_node: str, most_bytes: int) -> Warmth:
        """Goes on to have the page cache of a workload read where it is to go; how far that is.

        To be called again and again until it is warm. MoveError when it cannot be ordered.
        """

    def drop(self, cgroup: str) -> None:
        """Takes back what `warm` ordered, and lets go what was read; MoveError when it cannot."""
