# SPDX-License-Identifier: Apache-2.0
"""The names, labels and meaning of every metric of the controller; source of a generated page.

Names follow the conventions of Prometheus: base units, and `_total` for counters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Kind = Literal["gauge", "counter", "histogram"]
Family = GaugeMetricFamily | CounterMetricFamily


@dataclass(frozen=True)
class Described:
    """A metric as it is documented; `name` is the scraped name."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    def family(self) -> Family:
        """Return a metric family without samples."""
        make = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        return make(self.name, self.help, labels=self.labels)


def _gauges(prefix: str, labels: Sequence[str], helps: dict[str, str]) -> list[Described]:
    return [Described(prefix + name, "gauge", tuple(labels), text) for name, text in helps.items()]


TENANT = ("node", "cgroup")
SLO = (*TENANT, "slo")
_TENANTS = _gauges(
    "cachepilot_tenant_",
    TENANT,
    {
        "limit_bytes": "Memory limit in force; 0 if there is none.",
        "target_limit_bytes": "The target of a limit that is being lowered.",
        "floor_bytes": "What cannot be reclaimed, or the protected share of its first memory if "
        "that is more; an SLO may take that share. A stated memory_min applies too.",
        "current_bytes": "Memory in use.",
        "hit_ratio": "Share of page cache accesses that hit, last window.",
        "operations_per_second": "Operations of its indicator per second, last window.",
        "read_latency_p99_seconds": "99th percentile of the duration of read calls, last window.",
        "device_reads_per_second": "Reads that reached the device, last window.",
        "trusted": "1 when confidence in its curves is high enough to act on them.",
        "versus_default_ratio": "Throughput of the last window, divided by the throughput that is "
        "predicted for the kernel's default at its first memory; missing while that is unknown or "
        "the page cache is filling.",
    },
)
_SLOS = [
    Described(
        "cachepilot_slo_target_operations_per_second", "gauge", TENANT, "Target of throughput."
    ),
    Described(
        "cachepilot_slo_target_latency_p99_seconds", "gauge", TENANT, "Target of latency at p99."
    ),
    Described("cachepilot_slo_target_hit_ratio", "gauge", TENANT, "Target of the hit ratio."),
    Described("cachepilot_slo_met", "gauge", SLO, "1 when the SLO was met, last window."),
    Described("cachepilot_slo_windows_total", "counter", SLO, "Windows that were judged."),
    Described("cachepilot_slo_windows_met_total", "counter", SLO, "Windows that met the SLO."),
]
_NODES = _gauges(
    "cachepilot_node_",
    ("node",),
    {
        "connected": "1 while its agent has a session.",
        "frozen": "1 while nothing is planned for it, or the plan cannot be stored.",
        "stale": "1 while no snapshot arrives; its tenants then have no series of the controller.",
        "last_seen_timestamp_seconds": "The node's time of its last snapshot.",
        "tenants": "Managed cgroups.",
        "budget_bytes": "Memory that all its tenants share.",
        "allocated_bytes": "Sum of the limits of its tenants.",
        "free_bytes": "Memory that is part of no limit.",
        "sure_free_bytes": "Memory that was free all the time since `free_seconds` ago.",
        "free_seconds": "For how long `sure_free_bytes` have been free, up to an hour.",
        "free_confidence_ratio": "Chance that `sure_free_bytes` stay free for a minute.",
        "device_capacity_reads_per_second": "Reads that its device can serve.",
        "device_reads_per_second": "Reads that its device serves.",
        "device_share_ratio": "Reads served as a share of the capacity.",
        "plan_epoch": "Epoch of the last plan.",
        "trials_running": "Tenants with a change on trial.",
        "versus_default_ratio": "Weighted geometric mean of `versus_default_ratio` of its tenants.",
        "versus_default_low_ratio": "Lower bound of that mean, by the error of predictions.",
        "versus_default_high_ratio": "Upper bound of that mean.",
    },
)
_COMPARED = Described(
    "cachepilot_node_compared_tenants",
    "gauge",
    ("node", "verdict"),
    "Tenants by their throughput against the kernel's default: gains, pays, same or unknown.",
)
FAMILIES: tuple[Described, ...] = (
    Described(
        "cachepilot_tenant_info",
        "gauge",
        (*TENANT, "policy", "mode", "indicator"),
        "Always 1; the labels describe the present state.",
    ),
    *_TENANTS,
    *_SLOS,
    Described("cachepilot_decisions_total", "counter", (*TENANT, "event"), "Decisions by event."),
    Described(
        "cachepilot_node_info",
        "gauge",
        ("node", "kind", "kernel", "agent_version"),
        "Always 1; the labels describe what runs there.",
    ),
    *_NODES,
    _COMPARED,
    Described(
        "cachepilot_node_dropped_events_total",
        "counter",
        ("node",),
        "Sampled accesses that were lost since the agent started.",
    ),
    Described(
        "cachepilot_rollout_running",
        "gauge",
        (),
        "1 while a consolidation is carried out, 0 once it is over; none before the first.",
    ),
    Described(
        "cachepilot_rollout_moves",
        "gauge",
        ("state",),
        "Moves of the last rollout by their state: waiting, rehearsing, skipped, preparing, "
        "moving, warming, kept (confirmed), returning (being undone), returned (undone) or failed.",
    ),
    Described(
        "cachepilot_rollout_nodes_emptied", "gauge", (), "Nodes that the last rollout drained."
    ),
    Described(
        "cachepilot_store_failing", "gauge", (), "1 while the store cannot be read or written."
    ),
    Described("cachepilot_build_info", "gauge", ("version",), "Always 1."),
)
"""The metrics that are computed from the service at every scrape."""
CONTROL_LOOP = (
    Described(
        "cachepilot_control_step_seconds",
        "histogram",
        ("step",),
        "Time of one step of a control cycle: collect, observe, plan, decide, advise, store or "
        "apply.",
    ),
    Described(
        "cachepilot_control_cycle_seconds",
        "histogram",
        (),
        "Time of a control cycle, from a snapshot to its plan.",
    ),
    Described(
        "cachepilot_control_cycles_failed_total",
        "counter",
        ("node",),
        "Control cycles that ended in an error and changed nothing.",
    ),
    Described(
        "cachepilot_control_cycles_unstored_total",
        "counter",
        ("node",),
        "Control cycles whose state could not be stored, and that therefore sent only rollbacks.",
    ),
    Described(
        "cachepilot_control_decisions_lost_total",
        "counter",
        ("node",),
        "Decisions that could not be stored for so long that the history lacks them.",
    ),
    Described(
        "cachepilot_control_series_points_lost_total",
        "counter",
        ("node",),
        "Points of time series that could not be stored for so long that the store lacks them.",
    ),
    Described(
        "cachepilot_control_records_skipped_total",
        "counter",
        ("node",),
        "Decisions whose record was not kept, to bound the time that large nodes take.",
    ),
    Described(
        "cachepilot_control_needs_lost_total",
        "counter",
        ("node",),
        "Tenants whose past needs consolidation no longer knows, since too many came after them.",
    ),
    Described(
        "cachepilot_store_quarantined_total",
        "counter",
        ("kind",),
        "Stored entries that could not be read, kept aside: objective, pin, node, hello, change, "
        "rollout or needs.",
    ),
)
"""The metrics that the control loop and the store keep in the process's registry."""
