# SPDX-License-Identifier: Apache-2.0
"""Limits that hold for a while because a change of them has failed, longer after each failure."""

from dataclasses import dataclass

WAIT_S, WAIT_MAX_S = 60.0, 3600.0
"""Seconds for which a change of a limit that failed is not tried again: at first, and at most."""


@dataclass
class Wait:
    """A limit that holds until `until_s`, for `wait_s`, because a change of it has failed.

    It is one that the node did not move, or one that was enough, after a smaller one had not been.
    """

    cgroup_id: int
    limit_bytes: int
    wait_s: float
    until_s: float

    def is_forgotten(self, time_s: float) -> bool:
        """Whether it ended so long ago that the next failure is taken for a first one."""
        return time_s > self.until_s + self.wait_s


def wait_of(
    known: Wait | None, cgroup_id: int, limit_bytes: int, time_s: float, is_again: bool = True
) -> Wait:
    """A limit that holds from now on: twice as long as the `known` one, if it failed again."""
    wait_s = WAIT_S if known is None else min((1 + is_again) * known.wait_s, WAIT_MAX_S)
    return Wait(cgroup_id, limit_bytes, wait_s, time_s + wait_s)
