# SPDX-License-Identifier: Apache-2.0
"""The planner's decisions: an action per tenant, its predictions, and the reasons."""

from dataclasses import dataclass
from enum import StrEnum

from cachepilot.quick_records import quickly_made


class Held(StrEnum):
    """Why a tenant keeps its setting whatever its curves predict; NOT if it does not.

    What an operator pinned of the tenant applies nevertheless.
    """

    NOT = "not"
    UNTRUSTED = "untrusted"
    UNKNOWN_POLICY = "unknown_policy"
    NO_CURVES = "no_curves"
    OBSERVE = "observe"
    RECOMMEND = "recommend"
    YIELDED = "yielded"
    """Another program sets the limit of the tenant."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Setting:
    """A policy and a limit, and the predictions for them."""

    policy: str
    limit_bytes: int
    miss_ratio: float
    throughput_ops: float


@quickly_made
@dataclass(frozen=True, slots=True)
class Action:
    """The setting that one tenant gets; equal to its present one if nothing changes.

    `present` is the present setting with the predictions of the same model. Predictions for tenants
    that may not be changed rest on the measured miss ratio. `kept_ops` is the throughput that a
    tenant without an SLO keeps, at the planned load of the device. `kept_now_ops` is the same at
    the present load, that of `present`. Both are 0 if the tenant keeps nothing.
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
    """What a plan predicts of an SLO; never a measurement.

    `met`: it is predicted to be met. `approaching`: it is met after more cycles. `outbid`: it is
    missed, because tenants of higher priority, or cheaper ones of the same priority, take the
    memory. `unattainable`: not even all memory of the node is enough, with the device as busy as
    planned. It is reported until there is another prediction, also while the curves have low
    confidence. `unknown`: there is no prediction, because the curves have low confidence or a
    measurement is missing. `held`: it is missed, and the tenant may not be changed.
    """

    MET = "met"
    APPROACHING = "approaching"
    OUTBID = "outbid"
    UNATTAINABLE = "unattainable"
    UNKNOWN = "unknown"
    HELD = "held"


@dataclass(frozen=True)
class SloOutcome:
    """One SLO, the prediction of the plan for it, and the best value that is attainable.

    `target`, `value` and `attainable` are operations per second, microseconds or a hit ratio, as
    `kind` says: `throughput_ops`, `latency_p99_us` or `hit_ratio`. `attainable` is what this node
    could reach for the tenant in time if all others had their least memory. `attainable_ops` is the
    throughput there. Both assume the device to be as busy as planned. If it is the bottleneck they
    are estimates, since the device would be busier if the others had their least. They and `value`
    are None if `state` is `unknown`. `value` is also None if `state` is an earlier `unattainable`,
    since which the curves have low confidence; `why` says so.
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
        """Whether the plan does not pursue it: others come first, or it is unattainable."""
        return self.state in (SloState.OUTBID, SloState.UNATTAINABLE)


@dataclass(frozen=True)
class Plan:
    """The actions of one control interval, sorted by cgroup.

    `objective` is the predicted weighted throughput minus the costs of change, in operations per
    second; under proportional fairness it is the weighted geometric mean of throughputs. `bound` is
    what no plan of this cycle can exceed, None if the allocator proves no bound. `device_wait_us`
    is the predicted wait of a device read, `device_share` the share of the device's capacity that
    is used. `unallocated_bytes` are the part of the budget that no tenant gets. It is 0 if limits
    exceed the budget; `notes` then say so.
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
