# SPDX-License-Identifier: Apache-2.0
"""Conversion of objectives to OpenSLO and back."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cachepilot.domain.names import cgroup_pattern
from cachepilot.domain.objectives.file import ObjectivesError, parse_objectives
from cachepilot.domain.objectives.objective import Mode, Objective, Objectives
from cachepilot.openslo.export import openslo_yaml
from cachepilot.openslo.reading import parse_openslo, read_openslo

FOREIGN = """
apiVersion: openslo/v1
kind: Service
metadata: {name: db}
---
apiVersion: openslo/v1
kind: SLI
metadata: {name: db-operations}
spec:
  thresholdMetric:
    metricSource:
      type: Prometheus
      spec:
        query: max_over_time(cachepilot_tenant_operations_per_second{node="n", cgroup="/db"}[1m])
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: db-fast, displayName: Fast}
spec:
  service: db
  indicatorRef: db-operations
  timeWindow: [{duration: 4w, isRolling: true}]
  budgetingMethod: Occurrences
  objectives: [{op: gte, value: 5000, target: 0.999}]
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: db-p99, annotations: {cachepilot/cgroup: /db, cachepilot/priority: "3"}}
spec:
  service: db
  indicator:
    metadata: {name: x}
    spec:
      thresholdMetric:
        metricSource: {spec: {query: cachepilot_tenant_read_latency_p99_seconds}}
  objectives: [{op: lt, value: 0.002, targetPercent: 98}]
"""
EVERYTHING = """
[[tenant]]
cgroup = "/tenants/db*"
throughput_ops = 5000.5
latency_p99_us = 900
hit_ratio = 0.85
weight = 2
priority = -3
memory_min = "64MiB"
memory_max = "50%"
policies = ["s3fifo", "lfu"]
mode = "recommend"
indicator = { prometheus = "http://[::1]:9100/metrics", metric = "reads_total{kind=\\"get\\"}" }

[[tenant]]
cgroup = "/tenants/DB 1"
hit_ratio = 0.5

[[tenant]]
cgroup = "/tenants/db-1"
hit_ratio = 0.25
"""
NUMBERS = st.floats(min_value=1e-3, max_value=1e9) | st.integers(1, 10**9).map(float)
PROMISES = st.fixed_dictionaries(
    {
        "throughput_ops": st.none() | NUMBERS,
        "latency_p99_us": st.none() | st.integers(1, 10**9).map(float),
        "hit_ratio": st.none() | st.floats(min_value=1e-3, max_value=1.0),
        "weight": st.sampled_from([1.0, 0.5, 3.0]),
        "priority": st.integers(-9, 9),
        "mode": st.sampled_from(list(Mode)),
    }
)
PATTERNS = (
    st.from_regex(r"/[ -~]{0,40}", fullmatch=True)
    .filter(lambda text: not {".", ".."} & set(text.split("/")))
    .map(cgroup_pattern)
)


def test_a_document_of_another_tool_is_read() -> None:
    objectives, notes = parse_openslo(FOREIGN, "f.yaml")
    assert objectives.tenants == (
        Objective("/db", throughput_ops=5000.0, latency_p99_us=2000.0, priority=3),
    )
    assert notes == ["db-fast: target 0.999 is not kept; the alert rules are made for 0.98"]


def test_every_key_survives_the_conversion() -> None:
    objectives = parse_objectives(EVERYTHING, "objectives.toml")
    text, notes = openslo_yaml(objectives)
    assert notes == []
    found, notes = parse_openslo(text, "x.yaml")
    assert (found, notes) == (objectives, [])


def test_documents_are_well_formed() -> None:
    text, _ = openslo_yaml(parse_objectives(EVERYTHING, "objectives.toml"))
    found = list(yaml.safe_load_all(text))
    names = [one["metadata"]["name"] for one in found]
    assert len(set(names)) == len(names) == 5
    for one in found:
        for name in (one["metadata"]["name"], one["spec"]["service"]):
            assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name)
        assert all(isinstance(value, str) for value in one["metadata"]["annotations"].values())
        assert one["spec"]["budgetingMethod"] == "Occurrences"
    assert 'cgroup=~"/tenants/db.*"' in text
    latency = next(one for one in found if "latency" in one["metadata"]["name"])
    assert latency["spec"]["objectives"][0]["value"] == 0.0009


def test_an_objective_without_an_slo_is_named() -> None:
    text, notes = openslo_yaml(parse_objectives('[[tenant]]\ncgroup = "/a"\n', "o"))
    assert text == "" and notes == ["/a: has no SLO, and OpenSLO has no key for the rest"]


@given(st.dictionaries(PATTERNS, PROMISES, max_size=4))
def test_written_documents_are_read_back_unchanged(
    statements: dict[str, dict[str, object]],
) -> None:
    tenants = tuple(Objective(name, **keys) for name, keys in statements.items())  # type: ignore[arg-type]
    promised = tuple(one for one in tenants if one.has_slo)
    text, notes = openslo_yaml(Objectives(tenants))
    assert len(notes) == len(tenants) - len(promised)
    if not promised:
        return
    found, _ = parse_openslo(text, "x.yaml")
    assert [one.pattern for one in found.tenants] == [one.pattern for one in promised]
    for one, other in zip(found.tenants, promised, strict=True):
        assert (one.weight, one.priority, one.mode) == (other.weight, other.priority, other.mode)
        for key in ("throughput_ops", "latency_p99_us", "hit_ratio"):
            expected = getattr(other, key)
            assert getattr(one, key) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("openslo/v1\nkind: Service", "openslo/v2\nkind: Service"), "document 1: apiVersion"),
        (("kind: Service", "kind: Servant"), "document 1: kind: 'Servant' (allowed: SLO, "),
        (("op: gte", "op: lte"), "document 3: spec.objectives.0.op: lte (allowed for throughput"),
        (("op: gte", "op: eq"), "document 3: spec.objectives.0.op: Input should be"),
        (("value: 5000", "value: -1"), "throughput_ops"),
        (("value: 5000", "value: .nan"), "throughput_ops"),
        (("indicatorRef: db-operations", "indicatorRef: other"), "indicatorRef: 'other' (allowed"),
        (("cachepilot_tenant_read_latency_p99_seconds", "up"), "'up' is not about a metric"),
        (("cachepilot/cgroup: /db, ", ""), "cachepilot/cgroup is missing"),
        (("cachepilot/priority", "cachepilot/color"), "color"),
        (('"3"', '"high"'), "priority"),
        (("kind: SLO", "kind: Service"), "no document of kind SLO"),
        (("metadata: {name: db}", "metadata: {name: db"), "not YAML"),
    ],
)
def test_bad_documents_are_refused_in_one_line(change: tuple[str, str], message: str) -> None:
    assert change[0] in FOREIGN
    with pytest.raises(ObjectivesError) as caught:
        parse_openslo(FOREIGN.replace(*change), "bad.yaml")
    text = str(caught.value)
    assert text.startswith("bad.yaml: ") and message in text and "\n" not in text


def test_the_same_slo_twice_is_refused() -> None:
    second = FOREIGN.rsplit("---", maxsplit=1)[-1]
    with pytest.raises(ObjectivesError, match="latency_p99_us is stated twice"):
        parse_openslo(f"{FOREIGN}---{second}", "twice.yaml")


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_is_refused_cleanly(text: str) -> None:
    with pytest.raises(ObjectivesError):
        parse_openslo(text, "any.yaml")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ObjectivesError, match="No such file"):
        read_openslo(tmp_path / "none.yaml")
    (tmp_path / "big.yaml").write_bytes(b"#" * (5 << 20))
    with pytest.raises(ObjectivesError, match="more than 4 MiB"):
        read_openslo(tmp_path / "big.yaml")
    (tmp_path / "odd.yaml").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(ObjectivesError, match="UTF-8"):
        read_openslo(tmp_path / "odd.yaml")


def test_a_cgroup_of_a_query_that_is_no_text_is_refused() -> None:
    text = FOREIGN.replace('cgroup="/db"', 'cgroup="\\x"')
    with pytest.raises(ObjectivesError, match="query: cgroup: "):
        parse_openslo(text, "o.yaml")
