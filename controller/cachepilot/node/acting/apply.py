# SPDX-License-Identifier: Apache-2.0
"""The apply step: turns wishes into actions of the protocol, and takes in their acknowledgements.

A limit grows only into memory that is free: growth waits until other limits have shrunk.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.node.acting.on_trial import OnTrial
from cachepilot.node.deciding.config import NodeConfig
from cachepilot.node.deciding.decider import NodeState
from cachepilot.node.deciding.wish import Wish
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sizes import PAGE_BYTES, pages_down, pages_up
from cachepilot.v1 import session_pb2 as wire

BACKOFF_MAX_S = 60.0
WORKED = (wire.Result.APPLIED, wire.Result.STARTED, wire.Result.UNCHANGED)
PENDING_MAX = 16
"""Plans whose acknowledgement is awaited, at most. Beyond that the oldest is forgotten."""


@dataclass
class _Failure:
    """A request that failed `count` times, and the node's time at which it may be repeated."""

    asked: str
    count: int
    again_s: float


@dataclass
class _Kind:
    """Failures of one kind of action by cgroup. `fresh` are the reasons that were not reported yet.

    A request is the name of a policy, or the direction of a limit (up or down): the size of the
    step changes in every cycle, so that it cannot identify a request.
    """

    failures: dict[str, _Failure] = field(default_factory=dict)
    fresh: dict[str, str] = field(default_factory=dict)

    def waits(self, cgroup: str, asked: str, time_s: float) -> bool:
        found = self.failures.get(cgroup)
        if found is None or found.asked != asked:
            return False
        # A wait longer than the longest backoff means that the node's clock went back.
        return 0 < found.again_s - time_s <= BACKOFF_MAX_S

    def note(
        self, cgroup: str, asked: str, reason: str | None, time_s: float, interval_s: float
    ) -> None:
        earlier = self.failures.pop(cgroup, None)
        if reason is None:
            return
        count = earlier.count + 1 if earlier is not None and earlier.asked == asked else 1
        wait_s = min(BACKOFF_MAX_S, interval_s * 2.0 ** min(count, 16))
        self.failures[cgroup] = _Failure(asked, count, time_s + wait_s)
        if count == 1:
            self.fresh[cgroup] = reason

    def take(self) -> dict[str, str]:
        found, self.fresh = self.fresh, {}
        return found


def named_tasks(snapshot: wire.Snapshot, objectives: Objectives) -> list[wire.NamedTasks]:
    """The task names of every tenant whose objective names tasks, for the agent."""
    if not any(objective.tasks for objective in objectives.tenants):
        return []
    named = ((tenant, objectives.of(tenant.cgroup).tasks) for tenant in snapshot.tenants)
    return [
        wire.NamedTasks(cgroup=tenant.cgroup, cgroup_id=tenant.cgroup_id, names=names)
        for tenant, names in named
        if names
    ]


def grants(
    collected: Collected, wanted: Mapping[str, int], objectives: Objectives
) -> dict[str, int]:
    """Return the limits to set now, bytes by cgroup: all that shrink, and growth into free memory.

    Growth is granted by priority, the highest first. The sum of all limits stays within the budget;
    if it already exceeds the budget, no limit grows.
    """
    held = {cgroup: seen.held_bytes for cgroup, seen in collected.seen.items()}
    free = collected.free_bytes
    found: dict[str, int] = {}
    growing = []
    for cgroup, limit in wanted.items():
        seen = collected.seen[cgroup]
        if limit > held[cgroup]:
            growing.append((-objectives.of(cgroup).priority, cgroup, pages_down(limit)))
        elif (
            limit != (seen.wire.target_limit_bytes or seen.wire.limit_bytes) or seen.tenant.yielded
        ):
            # This includes growth of a limit that is still being lowered: the tenant may keep
            # memory that it still has. A limit that the agent yielded is set even if it is the
            # same: asking for it makes the agent manage it again.
            found[cgroup] = pages_up(limit)
    for _, cgroup, limit in sorted(growing):
        more = pages_down(min(limit - held[cgroup], max(0, free)))
        if more >= PAGE_BYTES:
            found[cgroup] = pages_down(held[cgroup] + more)
            free -= more
    return found


def _way(seen: Seen, limit_bytes: int) -> str:
    """The direction in which a limit moves."""
    return "up" if limit_bytes > seen.limit_bytes else "down"


class Applier:
    """Makes the actions of one node and follows what becomes of them."""

    def __init__(self, config: NodeConfig) -> None:
        self._interval_s, self._ttl_ms = config.interval_ms / 1000, config.change_ttl_ms
        self._policies, self._limits = _Kind(), _Kind()
        self._pending: dict[int, tuple[float, list[wire.Action], dict[str, str]]] = {}
        self.refused_plans_total = 0

    def actions(
        self,
        collected: Collected,
        wishes: Mapping[str, Wish],
        objectives: Objectives,
        epoch: int,
        state: NodeState,
        orders: Mapping[str, Wish],
    ) -> list[wire.Action]:
        """Return the actions to send: what is not in force, except what failed a moment ago.

        `state` says which of them are on trial. Wishes in `orders` never are.
        """
        trials = OnTrial(state, orders, self._ttl_ms)
        time_s = collected.time_s
        for kind in (self._policies, self._limits):
            for cgroup in kind.failures.keys() - collected.seen.keys():
                del kind.failures[cgroup]
        limits = {
            cgroup: wish.limit_bytes
            for cgroup, wish in wishes.items()
            if wish.limit_bytes is not None
            and not self._limits.waits(
                cgroup, _way(collected.seen[cgroup], wish.limit_bytes), time_s
            )
        }
        granted = grants(collected, limits, objectives)
        found: dict[str, wire.Action] = {}
        for cgroup, wish in wishes.items():
            seen = collected.seen[cgroup]
            policy = wish.policy if wish.policy != seen.tenant.policy else None
            if policy is not None and self._policies.waits(cgroup, policy, time_s):
                policy = None
            if policy is None and cgroup not in granted:
                continue
            action = wire.Action(cgroup=cgroup, cgroup_id=seen.wire.cgroup_id)
            if policy is not None:
                action.policy = policy
            if cgroup in granted:
                action.limit_bytes = granted[cgroup]
            trials.mark(action, seen)
            found[cgroup] = action
        # Limits that shrink come first, because the node applies actions in this order.
        held = {cgroup: seen.limit_bytes for cgroup, seen in collected.seen.items()}
        actions = sorted(found.values(), key=lambda one: one.limit_bytes > held[one.cgroup])
        if found:
            ways = {
                one.cgroup: _way(collected.seen[one.cgroup], one.limit_bytes) for one in actions
            }
            self._pending[epoch] = (time_s, actions, ways)
            while len(self._pending) > PENDING_MAX:
                del self._pending[min(self._pending)]
        return [*actions, *trials.about(collected, wishes, found)]

    def acknowledge(self, ack: wire.Ack) -> str:
        """Take in an acknowledgement; return why the whole plan was refused, or an empty string."""
        time_s, sent, ways = self._pending.pop(ack.epoch, (0.0, [], {}))
        if ack.refused:
            self.refused_plans_total += 1
            return ack.refused
        # Results are in the order of the actions. Actions that renew or confirm a change come last
        # and are not tracked: they are sent again if necessary.
        for action, result in zip(sent, ack.results, strict=False):
            if result.cgroup != action.cgroup:
                continue
            reason = None
            if result.outcome not in WORKED:
                name = wire.Result.Outcome.Name(result.outcome).lower()
                reason = result.reason or name
            if action.HasField("policy"):
                failed = reason if result.policy != action.policy else None
                asked = action.policy
                self._policies.note(result.cgroup, asked, failed, time_s, self._interval_s)
            if action.HasField("limit_bytes"):
                failed = reason if result.limit_bytes != action.limit_bytes else None
                way = ways[result.cgroup]
                self._limits.note(result.cgroup, way, failed, time_s, self._interval_s)
        return ""

    def take_refused_policies(self) -> dict[str, str]:
        """Tenants whose policy could not be changed since the last call, and why."""
        return self._policies.take()

    def take_refused_limits(self) -> dict[str, str]:
        """Tenants whose limit could not be changed since the last call, and why."""
        return self._limits.take()
