# SPDX-License-Identifier: Apache-2.0
"""The interface of a provider, which moves workloads: an orchestrator or a folder of files."""

from collections.abc import Mapping
from typing import Protocol

from cachepilot.domain.moving import Warmth
from cachepilot.errors import InputError


class MoveError(InputError):
    """A workload could not be moved or found; one line with the reason.

    The location of the workload is unknown then; ask `Provider.where`.
    """


class NoRoomError(MoveError):
    """The storage for the definition is full; the workload is where it was."""


class Provider(Protocol):
    """What a rollout needs from an orchestrator. Every call may be repeated after a crash."""

    def move(self, cgroup: str, from_node: str, to_node: str) -> None:
        """Order that a workload ends on one node and starts on another, with a cold page cache.

        Returns once that is ordered. Raises MoveError if it cannot be ordered.
        """

    def where(self, cgroup: str) -> str | None:
        """Return the node that a workload is assigned to, or None.

        Raises MoveError if that cannot be determined, or if there are several.
        """

    def placed(self) -> Mapping[str, str]:
        """Return the nodes of all workloads by cgroup, without those for which `where` fails."""

    def warm(self, cgroup: str, from_node: str, to_node: str, most_bytes: int) -> Warmth:
        """Advance the reading of a workload's page cache on its target; return the progress.

        At most `most_bytes` are read. Must be called repeatedly until the result is WARM. Raises
        MoveError if it cannot be ordered.
        """

    def drop(self, cgroup: str) -> None:
        """Cancel what `warm` ordered and release what was read; raise MoveError on failure."""
