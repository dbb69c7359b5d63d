# SPDX-License-Identifier: Apache-2.0
"""A rollout's view of a node, made from what the node's last cycle published."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cachepilot.fleet.moving.seen.observation import NodeSeen, SloSeen, TenantSeen
from cachepilot.node.loop import NodeLoop
from cachepilot.node.shown.readings import measured, operations
from cachepilot.node.shown.report import Report
from cachepilot.node.shown.slo_windows import is_met, slo_targets
from cachepilot.sense.collect import Seen
from cachepilot.sense.filling import ROOM_BYTES, ROOM_SHARE

NO_SESSION = "its agent has no session"


@dataclass(frozen=True)
class FleetSeen:
    """One observation of a fleet: some nodes, and the reports of all nodes that are not lost."""

    nodes: Mapping[str, NodeSeen]
    fresh: Sequence[Report]


def fleet_seen(names: Iterable[str], loops: Mapping[str, NodeLoop]) -> FleetSeen:
    """Return the nodes of those names, and the reports for planning the rest of a rollout.

    Each node is read once: it may be lost between two readings, which would then disagree.
    """
    told = {name: _told(name, loops) for name in {*names, *loops}}
    fresh = [told[name][0] for name in loops if not told[name][1]]
    nodes = {name: _node_seen(*told[name]) for name in names}
    return FleetSeen(nodes, [one for one in fresh if one is not None])


def node_seen(name: str, loops: Mapping[str, NodeLoop]) -> NodeSeen:
    """Return one node; its `lost` is set if it was never seen or sends nothing."""
    return _node_seen(*_told(name, loops))


def _told(name: str, loops: Mapping[str, NodeLoop]) -> tuple[Report | None, str]:
    """Return the last report of a node, and why the node is lost ("" if it is not)."""
    loop = loops.get(name)
    report = None if loop is None else loop.report
    if loop is None or report is None:
        return None, "was never seen"
    return report, loop.freshness.why or ("" if loop.connected else NO_SESSION)


def _node_seen(report: Report | None, lost: str) -> NodeSeen:
    if report is None:
        return NodeSeen(0.0, {}, lost)
    tenants = {
        cgroup: _tenant_seen(cgroup, report, seen) for cgroup, seen in report.collected.seen.items()
    }
    return NodeSeen(report.collected.time_s, tenants, lost)


def _tenant_seen(cgroup: str, report: Report, seen: Seen) -> TenantSeen:
    objective, told, ops = report.objectives.of(cgroup), seen.wire, operations(seen)
    slos = []
    for kind, target in slo_targets(objective):
        value = ops if kind == "throughput_ops" else measured(kind, seen)
        slos.append(SloSeen(kind, target, None if value is None else is_met(kind, value, target)))
    limit = max(told.limit_bytes, told.target_limit_bytes)
    room = max(ROOM_SHARE * limit, ROOM_BYTES)
    return TenantSeen(
        ops=ops,
        slos=tuple(slos),
        keep=objective.keep,
        is_full=0 < limit <= told.current_bytes + room,
        limit_bytes=limit,
        held_bytes=told.current_bytes,
        missed_pages=0 if seen.pages is None else seen.pages.misses,
    )
