# SPDX-License-Identifier: Apache-2.0
"""What a node says of changes that it undoes unless they are renewed or confirmed in time.

A change is named by the epoch of the plan that began it, which is in the store before it is sent.
What waits under another name was made by a controller whose store is lost: it is neither renewed
nor confirmed, and the node undoes it.
"""

from collections.abc import Mapping

from cachepilot.control.memory_trial import MemoryTrial
from cachepilot.control.tenant_state import TenantState
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


def _is_undone(state: TenantState, seen: Seen) -> bool:
    told = seen.wire.unconfirmed
    return told.undone and told.epoch in state.changes[-1:]


def why_over(
    trial: MemoryTrial, states: Mapping[str, TenantState], seen: Mapping[str, Seen]
) -> str | None:
    """Why memory cannot stay on trial, whatever is measured; None when it can."""
    if not trial.members or trial.gives_to_nobody:
        return "of all who were to get memory the workload changed, or they are gone"
    undone = [
        cgroup
        for cgroup in trial.everyone()
        if cgroup in seen and cgroup in states and _is_undone(states[cgroup], seen[cgroup])
    ]
    if undone:
        return f"the node took it back for want of plans: {', '.join(undone)}"
    return None
