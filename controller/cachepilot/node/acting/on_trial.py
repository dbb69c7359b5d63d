# SPDX-License-Identifier: Apache-2.0
"""Changes on trial as they are sent: with a rollback, then renewed, and confirmed in the end.

A change on trial carries the setting that the agent restores unless the change is renewed within
its time to live. It is renewed in every cycle while its trial runs. After the trial it is confirmed
for as long as the node reports that it waits, so that a lost message is repeated with the next
plan.
"""

from collections.abc import Mapping
from typing import Literal

from cachepilot.node.deciding.decider import NodeState
from cachepilot.node.deciding.wish import NO_WISH, Wish
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sizes import pages_up
from cachepilot.v1 import session_pb2 as wire

SettingName = Literal["policy", "limit_bytes"]


class OnTrial:
    """Changes on trial of one node in one cycle. Settings in `orders` are never on trial."""

    def __init__(self, state: NodeState, orders: Mapping[str, Wish], ttl: int) -> None:
        self._states, self._orders, self._ttl_ms = state.tenants, orders, ttl
        memory = state.memory
        moved = {} if memory.change is None else memory.change.origins()
        self._origins = {**memory.restore, **moved}

    def _policy_back(self, cgroup: str) -> str | None:
        """The policy to restore on a rollback; None if the tenant's policy is not on trial."""
        trial = self._states[cgroup].policy.trial
        ordered = self._orders.get(cgroup, NO_WISH).policy is not None
        return None if trial is None or ordered else trial.from_policy

    def _limit_back(self, cgroup: str, seen: Seen) -> int | None:
        origin = self._origins.get(cgroup)
        ordered = self._orders.get(cgroup, NO_WISH).limit_bytes is not None
        if origin is None or ordered or origin.cgroup_id != seen.wire.cgroup_id:
            return None
        return pages_up(origin.limit_bytes)

    def mark(self, action: wire.Action, seen: Seen) -> None:
        """Add the rollback to an action that begins a change on trial, and to no other."""
        state = self._states[action.cgroup]
        # A trial that an earlier version of the controller began has no name, and no rollback on
        # the node.
        if not state.changes:
            return
        back, trial = wire.Setting(), state.policy.trial
        policy, limit = self._policy_back(action.cgroup), self._limit_back(action.cgroup, seen)
        if policy is not None and trial is not None and action.policy == trial.to_policy:
            back.policy = policy
        if limit is not None and action.HasField("limit_bytes"):
            back.limit_bytes = limit
        if back.HasField("policy") or back.HasField("limit_bytes"):
            action.revert_to.CopyFrom(back)
            action.ttl_ms, action.change_epoch = self._ttl_ms, state.changes[-1]

    def about(
        self,
        collected: Collected,
        wishes: Mapping[str, Wish],
        changing: Mapping[str, wire.Action],
    ) -> list[wire.Action]:
        """Return actions that renew or confirm changes, except of settings `changing` now."""
        found = []
        for cgroup, seen in collected.seen.items():
            if not seen.wire.HasField("unconfirmed"):
                continue
            now = changing.get(cgroup)
            if now is not None and any(now.HasField(one) for one in _settings_back(seen)):
                continue
            ttl = self._waits_for(seen, wishes.get(cgroup, NO_WISH))
            if ttl is not None:
                told, cgroup_id = seen.wire.unconfirmed, seen.wire.cgroup_id
                one = wire.Action(cgroup=cgroup, cgroup_id=cgroup_id, change_epoch=told.epoch)
                one.ttl_ms = ttl
                found.append(one)
        return found

    def _waits_for(self, seen: Seen, wish: Wish) -> int | None:
        """Return the time to live to send, ms; 0 confirms the change, None sends nothing."""
        cgroup, told = seen.tenant.cgroup, seen.wire.unconfirmed
        if self._is_followed(seen):
            return 0 if told.epoch in self._states[cgroup].changes else None
        if self._is_on_trial(seen):
            # A change that the agent undid is not renewed: the decider ends its trial first. A
            # change of an unknown epoch is not renewed either.
            is_known = told.epoch in self._states[cgroup].changes
            return self._ttl_ms if is_known and not told.undone else None
        if told.undone:
            return 0
        here = {"policy": seen.tenant.policy, "limit_bytes": _here_bytes(seen)}
        is_set = all(getattr(wish, one) in (None, here[one]) for one in _settings_back(seen))
        # A setting that goes back, by the decider or by an operator's order, is not confirmed.
        return 0 if is_set and told.epoch in self._states[cgroup].changes else None

    def _is_followed(self, seen: Seen) -> bool:
        """Whether a change of a limit was kept and the next one has not moved that limit yet.

        Its earlier rollback would give memory back that other tenants have kept.
        """
        cgroup, told = seen.tenant.cgroup, seen.wire.unconfirmed
        if told.undone or self._policy_back(cgroup) is not None:
            return False
        back = self._limit_back(cgroup, seen)
        return back == _here_bytes(seen) != told.revert_to.limit_bytes

    def _is_on_trial(self, seen: Seen) -> bool:
        """Whether a setting that the agent would restore is on trial.

        The policy and the limit of a tenant wait separately.
        """
        cgroup, settings = seen.tenant.cgroup, _settings_back(seen)
        policy = "policy" in settings and self._policy_back(cgroup) is not None
        return policy or ("limit_bytes" in settings and self._limit_back(cgroup, seen) is not None)


def _here_bytes(seen: Seen) -> int:
    return seen.wire.target_limit_bytes or seen.wire.limit_bytes


def _settings_back(seen: Seen) -> tuple[SettingName, ...]:
    """The settings of a tenant that a rollback changes; both if it changes both or neither."""
    back = seen.wire.unconfirmed.revert_to
    of_policy = back.policy != seen.tenant.policy
    of_limit = back.limit_bytes != _here_bytes(seen)
    if of_policy == of_limit:
        return ("policy", "limit_bytes")
    return ("policy",) if of_policy else ("limit_bytes",)
