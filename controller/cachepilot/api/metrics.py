# SPDX-License-Identifier: Apache-2.0
"""The exposition for Prometheus, made of the service at every scrape: nothing is kept here."""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from cachepilot import _models
from cachepilot.api.metric_families import FAMILIES, Family
from cachepilot.api.service import Service
from cachepilot.api.shapes.views import NodeView, SloView, TenantView

EVENTS = (
    "trial", "kept", "reverted", "abandoned", "refused", "recommended",
)  # fmt: skip
SECONDS_PER_US = 1e-6
TARGETS = {
    "throughput_ops": ("cachepilot_slo_target_operations_per_second", 1.0),
    "latency_p99_us": ("cachepilot_slo_target_latency_p99_seconds", SECONDS_PER_US),
    "hit_ratio": ("cachepilot_slo_target_hit_ratio", 1.0),
}
Sample = tuple[str, Sequence[str], float | None]
"""Name of the family, values of its labels, value; None leaves the series out."""


def _slo_samples(labels: Sequence[str], slo: SloView) -> Iterator[Sample]:
    name, scale = TARGETS[slo.kind]
    yield name, labels, slo.target * scale
    labels = (*labels, slo.kind)
    yield "cachepilot_slo_met", labels, slo.met
    yield "cachepilot_slo_windows_total", labels, slo.windows_total
    yield "cachepilot_slo_windows_met_total", labels, slo.windows_met_total


def _tenant_samples(tenant: TenantView) -> Iterator[Sample]:
    """At most 30 series: 11 of the tenant, 4 of each of 3 SLOs, and one of each event.

    None of a tenant whose node is stale: what holds there is not known.
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
    yield prefix + "trial_running", labels, tenant.trial is not None
    for slo in tenant.slos:
        yield from _slo_samples(labels, slo)
    for event in EVENTS:
        count = tenant.decisions_total.get(event, 0)
        yield "cachepilot_decisions_total", (*labels, event), count


def _node_samples(node: NodeView) -> Iterator[Sample]:
    prefix, labels = "cachepilot_node_", (node.name,)
    yield prefix + "info", (*labels, node.kind, node.kernel, node.agent_version), 1
    yield prefix + "connected", labels, node.connected
    yield prefix + "frozen", labels, bool(node.problem)
    yield prefix + "stale", labels, node.stale
    yield prefix + "last_seen_timestamp_seconds", labels, node.last_seen_s
    yield prefix + "tenants", labels, None if node.stale else node.tenants
    yield prefix + "budget_bytes", labels, node.budget_bytes
    yield prefix + "allocated_bytes", labels, None if node.stale else node.limits_bytes
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
    yield prefix + "dropped_events_total", labels, node.dropped_events_total


class ServiceCollector(Collector):
    """The metrics of nodes and tenants, as the service says at the time of a scrape."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        """Names without values, so that registering asks nothing of the service."""
        return [described.family() for described in FAMILIES]

    def _samples(self) -> Iterator[Sample]:
        yield "cachepilot_build_info", (_models.version(),), 1
        yield "cachepilot_store_failing", (), bool(self._service.store_problem())
        for node in self._service.nodes():
            yield from _node_samples(node)
        for tenant in self._service.tenants():
            yield from _tenant_samples(tenant)

    def collect(self) -> Iterable[Metric]:
        """All families, those without a sample too."""
        families: dict[str, Family] = {described.name: described.family() for described in FAMILIES}
        for name, labels, value in self._samples():
            if value is not None:
                families[name].add_metric(list(labels), float(value))
        return families.values()


class Exposition:
    """Everything that one scrape answers with: the service, and what `process` registers."""

    def __init__(self, service: Service, process: CollectorRegistry) -> None:
        self._service = CollectorRegistry()
        self._service.register(ServiceCollector(service))
        self._process = process

    def text(self) -> bytes:
        """The text format, version 0.0.4."""
        return generate_latest(self._service) + generate_latest(self._process)
