# SPDX-License-Identifier: Apache-2.0
"""Acknowledgements of plans, which wait for the next cycle, and what the node refused in them."""

import logging
from collections import deque
from collections.abc import Mapping

from cachepilot.domain.decisions import Decision, Event, Setting
from cachepilot.node.acting.apply import Applier
from cachepilot.node.deciding.wish import NO_WISH, Wish
from cachepilot.sense.collect import Collected, Seen
from cachepilot.v1 import session_pb2 as wire

LOG = logging.getLogger(__name__)
ACKS_MAX = 64
"""Acknowledgements that wait for the next cycle, at most. Older ones are dropped and counted."""


class Acknowledged:
    """The acknowledgements of one node. Sessions add them; the cycle takes them in."""

    def __init__(self, node: str, applier: Applier) -> None:
        self._node, self._applier = node, applier
        self._waiting: deque[wire.Ack] = deque(maxlen=ACKS_MAX)
        self.dropped_total = 0

    def add(self, ack: wire.Ack) -> None:
        """Queue an acknowledgement for the next cycle."""
        self.dropped_total += len(self._waiting) == ACKS_MAX
        self._waiting.append(ack)

    def forget(self) -> None:
        """Forget what waits: it is of an earlier session."""
        self._waiting.clear()

    def take(self, collected: Collected) -> list[Decision]:
        """Take in what waits; return a decision for each limit the node refused."""
        while self._waiting:
            refused = self._applier.acknowledge(self._waiting.popleft())
            if refused:
                LOG.warning("node %s: a plan was refused: %s", self._node, refused)
        found = []
        for cgroup, reason in self._applier.take_refused_limits().items():
            seen = collected.seen.get(cgroup)
            if seen is not None:
                found.append(_refused(seen, seen.tenant.policy, f"limit: {reason}", collected))
        return found


def refused_pins(
    collected: Collected, orders: Mapping[str, Wish], refused: Mapping[str, str]
) -> list[Decision]:
    """Return a decision for each policy that an operator ordered and that the node refused.

    `refused` are all refusals, with the reason. Those of trials are decisions of the decider.
    """
    found = []
    for cgroup, reason in refused.items():
        seen, policy = collected.seen.get(cgroup), orders.get(cgroup, NO_WISH).policy
        if seen is not None and policy is not None:
            found.append(_refused(seen, policy, f"policy: {reason}", collected))
    return found


def _refused(seen: Seen, policy: str, why: str, collected: Collected) -> Decision:
    """The decision that a node refused a setting of a tenant with this policy."""
    tenant, limit = seen.tenant, seen.limit_bytes
    before, after = Setting(tenant.policy, limit), Setting(policy, limit)
    return Decision(collected.time_s, tenant.cgroup, Event.REFUSED, before, after, why)
