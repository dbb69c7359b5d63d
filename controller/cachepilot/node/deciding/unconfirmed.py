# SPDX-License-Identifier: Apache-2.0
"""What a node says of changes that it undoes unless they are renewed or confirmed in time.

A change is named by the epoch of the plan that began it, which is in the store before it is sent.
What waits under another name was made by a controller whose store is lost: it is neither renewed
nor confirmed, and the node undoes it.
"""

from collections.abc import Mapping

from cachepilot.node.deciding.tenant_state import TenantState
from cachepilot.sense.collect import Seen


def foreign(states: Mapping[str, TenantState], seen: Mapping[str, Seen]) -> frozenset[str]:
    """Tenants of whom something waits that nothing is known of: the node is about to undo it.

    A change that began meanwhile would have that to go back to.
    """
    return frozenset(
        cgroup
        for cgroup, found in seen.items()
        if found.wire.HasField("unconfirmed")
        and not found.wire.unconfirmed.undone
        and found.wire.unconfirmed.epoch not in states[cgroup].changes
    )
