# SPDX-License-Identifier: Apache-2.0
"""What an order would cost: SLOs that are predicted to be missed because of it."""

from dataclasses import replace

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.planned import SloOutcome
from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.config import Config
from cachepilot.plan.problem.limits import InfeasibleError
from cachepilot.plan.slo_outcomes import meets, part_reached
from cachepilot.plan.what_if import settled
from cachepilot.readable import number

LEAST_LOSS = 0.01
"""Of an SLO: what is nearer or further by less is the same."""
UNITS = {"throughput_ops": " ops/s", "latency_p99_us": " us"}


def _told(one: SloOutcome, earlier: SloOutcome | None) -> str:
    unit = UNITS.get(one.kind, "")
    without = ""
    if earlier is not None and earlier.value is not None:
        without = f", {number(earlier.value)} without it"
    return (
        f"SLO {one.kind} of {one.cgroup} would be missed: {number(one.target)}{unit} asked, "
        f"{number(one.value or 0.0)} predicted{without}"
    )


def missed_slos(
    snapshot: Snapshot, present: Objectives, wanted: Objectives, config: Config
) -> list[str]:
    """SLOs that the end state under `wanted` misses, and further than that under `present` does.

    A line for each. A tenant with a pinned limit has no floor here but what it cannot do without,
    which the caller sees to. Nothing is told of what nothing can be predicted of.
    """
    try:
        before = plan(snapshot, present, settled(config)).slos
        after = plan(snapshot, wanted, settled(config)).slos
    except InfeasibleError:
        return []
    earlier = {(one.cgroup, one.kind): one for one in before}
    found = []
    for one in after:
        if one.value is None or meets(one.kind, one.value, one.target):
            continue
        was = earlier.get((one.cgroup, one.kind))
        reached = part_reached(one.kind, one.value, one.target)
        if was is not None and was.value is not None and was.target == one.target:
            least = (1 - LEAST_LOSS) * part_reached(was.kind, was.value, was.target)
            if reached >= min(1.0, least):
                continue
        found.append(_told(one, was))
    return found


def without_floors(snapshot: Snapshot, floors: dict[str, int]) -> Snapshot:
    """The snapshot in which these tenants have only these floors."""
    tenants = tuple(
        replace(one, floor_bytes=min(one.floor_bytes, floors.get(one.cgroup, one.floor_bytes)))
        for one in snapshot.tenants
    )
    return replace(snapshot, tenants=tenants)
