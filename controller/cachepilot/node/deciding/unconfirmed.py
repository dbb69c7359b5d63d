# SPDX-License-Identifier: Apache-2.0
"""Changes that a node reports as unconfirmed and that this controller does not know.

The node undoes a change that is neither renewed nor confirmed in time. A change is named by the
epoch of the plan that began it, which is stored before the plan is sent. A change with another name
was made by a controller whose store is lost. It is neither renewed nor confirmed, so that the node
undoes it.
"""

from collections.abc import Mapping

from cachepilot.node.deciding.tenant_state import TenantState
from cachepilot.sense.collect import Seen


def foreign(states: Mapping[str, TenantState], seen: Mapping[str, Seen]) -> frozenset[str]:
    """Tenants with an unknown change that waits: the node is about to undo it.

    A change that began meanwhile would have that setting as its rollback.
    """
    return frozenset(
        cgroup
        for cgroup, found in seen.items()
        if found.wire.HasField("unconfirmed")
        and not found.wire.unconfirmed.undone
        and found.wire.unconfirmed.epoch not in states[cgroup].changes
    )
