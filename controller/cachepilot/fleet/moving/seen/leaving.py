# SPDX-License-Identifier: Apache-2.0
"""Which tenants are on a drained node after the last of its moves.

A tenant may come to the node during that move. One snapshot does not show that there is none: an
agent leaves out a tenant whose cgroup it could not read, and the node may be lost at that moment.
So the node is watched from the arrival of the tenant on its target. A tenant that was seen on the
node is gone once its snapshots lack it as long as anywhere else.
"""

from dataclasses import replace

from cachepilot.domain.moving import Left, Moved, Rollout
from cachepilot.fleet.moving.seen.observation import Observation
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS


def watched(rollout: Rollout, moved: Moved, seen: Observation) -> Moved:
    """Add a snapshot of the node that a move leaves, if this is the last move of a drain."""
    if rollout.spreads or rollout.going(moved.drain):
        return moved
    home, known = seen.nodes[moved.move.from_node], moved.left or Left(heard_s=seen.now_s)
    if home.lost or home.time_s == known.measured_s:
        return replace(moved, left=known)
    own = {one.move.cgroup for one in rollout.of_drain(moved.drain)}
    missing = {cgroup: count + 1 for cgroup, count in known.others}
    missing |= dict.fromkeys(home.tenants.keys() - own, 0)
    others = tuple(one for one in sorted(missing.items()) if one[1] <= seen.lost_looks)
    return replace(moved, left=Left(home.time_s, seen.now_s, known.looks + 1, others))


def is_known(left: Left | None) -> bool:
    """Whether the snapshots of a node so far show which tenants are on it; True without a node."""
    if left is None:
        return True
    return left.looks >= BEFORE_WINDOWS and not any(count for _, count in left.others)


def is_awaited(moved: Moved, seen: Observation) -> bool:
    """Whether more snapshots of the node are to show which tenants are on it.

    They are not waited for if the node sent none for `lost_s` seconds.
    """
    left = moved.left
    return left is not None and not is_known(left) and seen.now_s - left.heard_s <= seen.lost_s
