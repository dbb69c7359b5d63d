# SPDX-License-Identifier: Apache-2.0
"""What the planner decides: an action per tenant, what it predicts, and why."""

from dataclasses import dataclass
from enum import StrEnum

from cachepilot.quick_records import quickly_made


class Held(StrEnum):
    """Why a tenant keeps what it has whatever its curves say; NOT when it does not.

    What is pinned of it by hand is done all the same.
    """

    NOT = "not"
    UNTRUSTED = "untrusted"
    UNKNOWN_POLICY = "unknown_policy"
    NO_CURVES = "no_curves"
    OBSERVE = "observe"
    RECOMMEND = "recommend"
    YIELDED = "yielded"
    """Its limit is left to who else sets it."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Setting:
    """A policy and a limit, and what they are predicted to give."""

    policy: str
    limit_bytes: int
    miss_ratio: float
    throughput_ops: float


@quickly_made
@dataclass(frozen=True, slots=True)
class Action:
    """What one tenant gets; equal to what it has when nothing is to be changed.

    `present` is what the same model predicts for what it has. Predictions for tenants that may not
    be changed rest on the measured miss ratio. `kept_ops` is the throughput that it keeps without
    an SLO, under the planned load of the device, `kept_now_ops` the same under the present load,
    that of `present`; 0 when it is none.
    """

    cgroup: str
    policy: str
    limit_bytes: int
    miss_ratio: float
    throughput_ops: float
    present: Setting
    held: Held
    why: str
    kept_ops: float = 0.0
    kept_now_ops: float = 0.0


class SloState(StrEnum):
    """What becomes of an SLO.

    `approaching`: it takes more cycles. `outbid`: tenants of higher priority, or cheaper ones of
    the same, take the memory. `unattainable`: not even all memory of the node would do,
    with the device as busy as planned.
    `unmeasured`: nothing is measured that it could be predicted from. `held`: it is not kept, and
    the tenant may not be changed.
    """

    KEPT = "kept"
    APPROACHING = "approaching"
    OUTBID = "outbid"
    UNATTAINABLE = "unattainable"
    UNMEASURED = "unmeasured"
    HELD = "held"


@dataclass(frozen=True)
class SloOutcome:
    """One SLO, what the plan is predicted to make of it, and the most that is attainable.

    `target`, `value` and `attainable` are operations per second, microseconds or a hit ratio, as
    `kind` says: `throughput_ops`, `latency_p99_us` or `hit_ratio`. `attainable` is what this node
    could give the tenant in time if all others had their least; `attainable_ops` the throughput
    there, both with the device as busy as planned: where that is the bottleneck they are estimates,
    for the least of the others would make it busier. They and `value` are None when nothing is
    measured that could predict them.
    """

    cgroup: str
    kind: str
    target: float
    state: SloState
    value: float | None
    attainable: float | None
    attainable_ops: float | None
    why: str

    @property
    def is_given_up(self) -> bool:
        """Whether the plan leaves it out: for others, or because nothing would do."""
        return self.state in (SloState.OUTBID, SloState.UNATTAINABLE)


@dataclass(frozen=True)
class Plan:
    """The actions of one control interval, sorted by cgroup.

    `objective` is the weighted throughput predicted less the costs of change, under proportional
    fairness the weighted geometric mean of throughputs, in operations per second; `bound` what no
    plan of this cycle can exceed, where the allocator proves one.
    `device_wait_us` is what a device read is predicted to wait, `device_share` the share of the
    device's capacity that is used. `unallocated_bytes` of the budget go to nobody; 0 where limits
    exceed it, which `notes` say.
    """

    epoch: int
    node: str
    allocator: str
    actions: tuple[Action, ...]
    slos: tuple[SloOutcome, ...]
    objective: float
    bound: float | None
    device_wait_us: float
    device_share: float
    unallocated_bytes: int
    notes: tuple[str, ...]
