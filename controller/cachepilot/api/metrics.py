# SPDX-License-Identifier: Apache-2.0
"""The Prometheus exposition, computed from the service at every scrape; nothing is cached."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from cachepilot import _models
from cachepilot.api.metric_families import FAMILIES, Family
from cachepilot.api.service import Service
from cachepilot.api.shapes.views import NodeView, SloView, TenantView
from cachepilot.domain.moving import MoveState, RolloutState
from cachepilot.domain.past.comparison import TenantComparison, Verdict, summed

EVENTS = (
    "trial", "kept", "reverted", "abandoned", "refused", "recommended",
)  # fmt: skip
SECONDS_PER_US = 1e-6
TARGETS = {
    "throughput_ops": ("cachepilot_slo_target_operations_per_second", 1.0),
    "latency_p99_us": ("cachepilot_slo_target_latency_p99_seconds", SECONDS_PER_US),
    "hit_ratio": ("cachepilot_slo_target_hit_ratio", 1.0),
}
VERDICTS = (Verdict.GAINS, Verdict.PAYS, Verdict.SAME, Verdict.UNKNOWN)
Sample = tuple[str, Sequence[str], float | None]
"""Name of the family, values of its labels, value; a series with None is left out."""


def _slo_samples(labels: Sequence[str], slo: SloView) -> Iterator[Sample]:
    name, scale = TARGETS[slo.kind]
    yield name, labels, slo.target * scale
    labels = (*labels, slo.kind)
    yield "cachepilot_slo_met", labels, slo.met
    yield "cachepilot_slo_windows_total", labels, slo.windows_total
    yield "cachepilot_slo_windows_met_total", labels, slo.windows_met_total


def _tenant_samples(tenant: TenantView) -> Iterator[Sample]:
    """Yield at most 28 series: 10 of the tenant, 4 of each of 3 SLOs, and one per event.

    A tenant of a stale node has none, since its state is not known. `_compared_samples` adds the
    29th and last series that a tenant may have in the controller's exposition.
    """
    if tenant.stale:
        return
    prefix, labels = "cachepilot_tenant_", (tenant.node, tenant.cgroup)
    yield prefix + "info", (*labels, tenant.policy, tenant.mode, tenant.indicator), 1
    yield prefix + "limit_bytes", labels, tenant.limit_bytes
    yield prefix + "target_limit_bytes", labels, tenant.target_limit_bytes
    yield prefix + "floor_bytes", labels, tenant.floor_bytes
    yield prefix + "current_bytes", labels, tenant.current_bytes
    yield prefix + "hit_ratio", labels, tenant.hit_ratio
    yield prefix + "operations_per_second", labels, tenant.throughput_ops
    p99_us = tenant.latency_p99_us
    p99_seconds = None if p99_us is None else p99_us * SECONDS_PER_US
    yield prefix + "read_latency_p99_seconds", labels, p99_seconds
    yield prefix + "device_reads_per_second", labels, tenant.device_iops
    yield prefix + "trusted", labels, tenant.trusted
    for slo in tenant.slos:
        yield from _slo_samples(labels, slo)
    for event in EVENTS:
        count = tenant.decisions_total.get(event, 0)
        yield "cachepilot_decisions_total", (*labels, event), count


def _node_samples(node: NodeView, trials: int) -> Iterator[Sample]:
    prefix, labels = "cachepilot_node_", (node.name,)
    yield prefix + "info", (*labels, node.kind, node.kernel, node.agent_version), 1
    yield prefix + "connected", labels, node.connected
    yield prefix + "frozen", labels, bool(node.problem)
    yield prefix + "stale", labels, node.stale
    yield prefix + "last_seen_timestamp_seconds", labels, node.last_seen_s
    yield prefix + "tenants", labels, None if node.stale else node.tenants
    yield prefix + "budget_bytes", labels, node.budget_bytes
    yield prefix + "allocated_bytes", labels, None if node.stale else node.limits_bytes
    for name, value in (
        ("free_bytes", node.free_bytes),
        ("sure_free_bytes", node.sure_free_bytes),
        ("free_seconds", node.free_for_s),
        ("free_confidence_ratio", node.free_confidence),
    ):
        yield prefix + name, labels, None if node.stale else value
    yield prefix + "device_reads_per_second", labels, node.device_iops
    known = node.device_capacity_iops > 0
    yield (
        prefix + "device_capacity_reads_per_second",
        labels,
        node.device_capacity_iops if known else None,
    )
    share = None
    if known and node.device_iops is not None:
        share = node.device_iops / node.device_capacity_iops
    yield prefix + "device_share_ratio", labels, share
    yield prefix + "plan_epoch", labels, node.epoch
    yield prefix + "trials_running", labels, None if node.stale else trials
    yield prefix + "dropped_events_total", labels, node.dropped_events_total


def _compared_samples(tenants: Iterable[TenantComparison]) -> Iterator[Sample]:
    """Yield the effect of the autopilot: a ratio per tenant; bounds and counts per node."""
    nodes: dict[str, list[TenantComparison]] = {}
    for one in tenants:
        nodes.setdefault(one.node, []).append(one)
        if one.versus_default is not None:
            labels = (one.node, one.cgroup)
            yield "cachepilot_tenant_versus_default_ratio", labels, one.versus_default.ratio
    for node, some in nodes.items():
        total = summed(node, some)
        counts = (total.gain, total.pay, total.same, total.unknown)
        for verdict, count in zip(VERDICTS, counts, strict=True):
            yield "cachepilot_node_compared_tenants", (node, verdict), count
        if total.versus_default is not None:
            prefix, ratio = "cachepilot_node_versus_default_", total.versus_default
            yield prefix + "ratio", (node,), ratio.ratio
            yield prefix + "low_ratio", (node,), ratio.low
            yield prefix + "high_ratio", (node,), ratio.high


class ServiceCollector(Collector):
    """Collects the metrics of nodes and tenants from the service at the time of a scrape."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        """Return names without values, so that registration does not call the service."""
        return [described.family() for described in FAMILIES]

    def _rollout_samples(self) -> Iterator[Sample]:
        found = self._service.moving.rollout()
        if found is None:
            return
        yield "cachepilot_rollout_running", (), found.state is RolloutState.RUNNING
        yield "cachepilot_rollout_nodes_emptied", (), len(found.emptied)
        counts = Counter(one.state for one in found.moves)
        for state in MoveState:
            yield "cachepilot_rollout_moves", (state,), counts[state]

    def _samples(self) -> Iterator[Sample]:
        yield "cachepilot_build_info", (_models.version(),), 1
        yield "cachepilot_store_failing", (), bool(self._service.store_problem())
        tenants = self._service.tenants()
        trials = Counter(one.node for one in tenants if one.trial is not None)
        for node in self._service.nodes():
            yield from _node_samples(node, trials[node.name])
        for tenant in tenants:
            yield from _tenant_samples(tenant)
        yield from _compared_samples(self._service.past.compared())
        yield from self._rollout_samples()

    def collect(self) -> Iterable[Metric]:
        """Return all families, including those without a sample."""
        families: dict[str, Family] = {described.name: described.family() for described in FAMILIES}
        for name, labels, value in self._samples():
            if value is not None:
                families[name].add_metric(list(labels), float(value))
        return families.values()


class Exposition:
    """The whole answer to a scrape: the service's metrics, and those registered in `process`."""

    def __init__(self, service: Service, process: CollectorRegistry) -> None:
        self._service = CollectorRegistry()
        self._service.register(ServiceCollector(service))
        self._process = process

    def text(self) -> bytes:
        """Return the text format, version 0.0.4."""
        return generate_latest(self._service) + generate_latest(self._process)
