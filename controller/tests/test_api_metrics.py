# SPDX-License-Identifier: Apache-2.0
"""The metrics as a scraper reads them."""

from collections import Counter
from collections.abc import Mapping

import pytest
from fake_service import FakeService, slo, tenant
from prometheus_client import REGISTRY, CollectorRegistry, Histogram, Metric
from prometheus_client.parser import text_string_to_metric_families

from cachepilot.api.metric_families import CONTROL_LOOP
from cachepilot.api.metrics import EVENTS, Exposition
from cachepilot.api.shapes.views import NodeView
from cachepilot.domain.past.comparison import summed

TENANT_SERIES_MAX = 60 - 31
"""A tenant may have 60 series. 31 of these are its agent's."""


def scraped(service: FakeService, process: CollectorRegistry = REGISTRY) -> dict[str, Metric]:
    text = Exposition(service, process).text().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(families: Mapping[str, Metric], name: str, **labels: str) -> float:
    family = families[name.removesuffix("_total").removesuffix("_bucket")]
    found = [
        sample.value
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert len(found) == 1, f"{name} {labels}: {found}"
    return float(found[0])


def test_tenants() -> None:
    families = scraped(FakeService())
    tenant_info = "cachepilot_tenant_info"
    assert value(families, tenant_info, cgroup="/db", policy="lfu", mode="auto") == 1
    of_db = {"node": "alpha", "cgroup": "/db"}
    assert value(families, "cachepilot_tenant_limit_bytes", **of_db) == 512 << 20
    assert value(families, "cachepilot_tenant_operations_per_second", **of_db) == 5240
    p99 = value(families, "cachepilot_tenant_read_latency_p99_seconds", **of_db)
    assert p99 == pytest.approx(0.00084)
    assert value(families, "cachepilot_node_trials_running", node="alpha") == 1
    assert value(families, "cachepilot_tenant_trusted", cgroup="/search") == 1
    hit_ratios = families["cachepilot_tenant_hit_ratio"].samples
    assert "/web" not in {sample.labels["cgroup"] for sample in hit_ratios}


def test_slos_and_decisions() -> None:
    families = scraped(FakeService())
    target = "cachepilot_slo_target_latency_p99_seconds"
    assert value(families, target, cgroup="/db") == pytest.approx(0.0009)
    of_slo = {"cgroup": "/search", "slo": "hit_ratio"}
    assert value(families, "cachepilot_slo_met", **of_slo) == 0
    assert value(families, "cachepilot_slo_windows_total", **of_slo) == 3600
    assert value(families, "cachepilot_slo_windows_met_total", **of_slo) == 2196
    decisions = "cachepilot_decisions_total"
    assert value(families, decisions, cgroup="/db", event="kept") == 2
    assert value(families, decisions, cgroup="/web", event="reverted") == 0


def test_nodes() -> None:
    families = scraped(FakeService())
    assert value(families, "cachepilot_node_connected", node="alpha") == 1
    assert value(families, "cachepilot_node_frozen", node="beta") == 1
    assert value(families, "cachepilot_node_device_share_ratio", node="alpha") == 0.65
    assert value(families, "cachepilot_node_dropped_events_total", node="beta") == 7
    assert value(families, "cachepilot_node_plan_epoch", node="alpha") == 412


def test_the_gain_over_the_default_is_shown_by_tenant_and_by_node() -> None:
    service = FakeService()
    tenants = service.past.compared()
    families = scraped(service)
    known = {one.cgroup: one.versus_default for one in tenants if one.versus_default is not None}
    for cgroup, ratio in known.items():
        name = "cachepilot_tenant_versus_default_ratio"
        assert value(families, name, node="alpha", cgroup=cgroup) == ratio.ratio
    total = summed("alpha", tenants)
    assert total.versus_default is not None
    prefix = "cachepilot_node_versus_default_"
    bounds = [value(families, prefix + one, node="alpha") for one in ("low_ratio", "high_ratio")]
    assert bounds == [total.versus_default.low, total.versus_default.high]
    assert value(families, prefix + "ratio", node="alpha") == total.versus_default.ratio
    counts = {"gains": total.gain, "pays": total.pay, "same": total.same, "unknown": total.unknown}
    for verdict, count in counts.items():
        name = "cachepilot_node_compared_tenants"
        assert value(families, name, node="alpha", verdict=verdict) == count


def test_metrics_that_the_process_registers_are_scraped_too() -> None:
    process = CollectorRegistry()
    steps = Histogram("steps_seconds", "A step.", ["step"], buckets=(0.1, 1), registry=process)
    steps.labels("plan").observe(0.5)
    families = scraped(FakeService(), process)
    assert value(families, "steps_seconds_bucket", step="plan", le="1.0") == 1
    assert "process_resident_memory_bytes" in scraped(FakeService())


def test_a_device_of_unknown_capacity_has_no_share() -> None:
    class Unknown(FakeService):
        def nodes(self) -> list[NodeView]:
            unknown = {"device_capacity_iops": 0.0}
            return [one.model_copy(update=unknown) for one in super().nodes()]

    assert not scraped(Unknown())["cachepilot_node_device_share_ratio"].samples


def test_series_of_a_tenant_are_bounded() -> None:
    kinds = ("throughput_ops", "latency_p99_us", "hit_ratio")
    slos = [slo(kind, 1, 1) for kind in kinds]
    everything = tenant("/all", "lfu", 64).model_copy(update={"slos": slos})
    families = scraped(FakeService(all_tenants=[everything]))
    series = Counter(
        sample.labels.get("cgroup") for family in families.values() for sample in family.samples
    )
    assert series["/all"] < TENANT_SERIES_MAX, "one more says what it gains"
    assert series["/all"] == 10 + 3 * 4 + len(EVENTS)


def test_the_control_loop_has_the_metrics_that_are_documented() -> None:
    pytest.importorskip("cachepilot.node.timing")
    known = {
        (metric.name, metric.type, metric.documentation)
        for metric in REGISTRY.collect()
        if metric.name.startswith("cachepilot_")
    }
    assert known == {(one.name.removesuffix("_total"), one.kind, one.help) for one in CONTROL_LOOP}
