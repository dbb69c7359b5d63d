# SPDX-License-Identifier: Apache-2.0
"""Predict the SLOs that an operator's order, such as a pinned limit, would cause to be missed."""

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
"""The least difference that counts, as a share of the part of an SLO that is reached."""
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
    """List the SLOs that the settled state under `wanted` misses, a line for each.

    An SLO counts only if the settled state under `present` reaches a greater part of it. A tenant
    with a pinned limit has no floor here except what it cannot do without; the caller sees to that
    (`without_floors`). An SLO without a prediction is left out.
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
    """Lower the floors of tenants to at most those in `floors`."""
    tenants = tuple(
        replace(one, floor_bytes=min(one.floor_bytes, floors.get(one.cgroup, one.floor_bytes)))
        for one in snapshot.tenants
    )
    return replace(snapshot, tenants=tenants)
