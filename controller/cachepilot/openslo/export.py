# SPDX-License-Identifier: Apache-2.0
"""Writes objectives as OpenSLO: one document for each SLO."""

import json
import re
from collections.abc import Iterator
from fnmatch import translate
from typing import Any

import yaml

from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.objectives.table import objective_table
from cachepilot.domain.objectives.workload import workload_pattern
from cachepilot.domain.slos import GOAL
from cachepilot.openslo.document import API_VERSION, METRICS, PER_METRIC_UNIT, PREFIX

TARGET = GOAL
"""The share of windows in which an SLO must be met, as in configs/prometheus/rules.yml."""
WINDOW = "30d"
NAME_MAX = 63
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_TITLES = {
    "throughput_ops": "Operations per second",
    "latency_p99_us": "Duration of read calls, 99th percentile, seconds",
    "hit_ratio": "Share of page cache accesses that hit",
}


def _slug(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-") or "any"


def _unique(name: str, taken: set[str]) -> str:
    """Return a DNS label that is not taken, and add it to `taken`."""
    found, number = name[-NAME_MAX:].strip("-"), 1
    while found in taken:
        number += 1
        suffix = f"-{number}"
        found = name[-NAME_MAX + len(suffix) :].strip("-") + suffix
    taken.add(found)
    return found


def _query(metric: str, pattern: str) -> str:
    if any(character in pattern for character in "*?["):
        glob = translate(pattern).removeprefix("(?s:").removesuffix(r")\Z")
        return f"{metric}{{cgroup=~{json.dumps(glob, ensure_ascii=False)}}}"
    return f"{metric}{{cgroup={json.dumps(pattern, ensure_ascii=False)}}}"


def _annotation(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _slo(objective: Objective, kind: str, taken: set[str]) -> dict[str, Any]:
    table = objective_table(objective)
    kept = {key: value for key, value in table.items() if key not in METRICS}
    value = table[kind] / PER_METRIC_UNIT.get(kind, 1.0)
    query = _query(METRICS[kind], objective.pattern)
    source = {"type": "Prometheus", "spec": {"query": query}}
    name = _unique(f"{_slug(objective.pattern)}-{_slug(kind)}", taken)
    annotations = {PREFIX + key: _annotation(value) for key, value in kept.items()}
    return {
        "apiVersion": API_VERSION,
        "kind": "SLO",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "description": f"{_TITLES[kind]} of {objective.pattern}",
            "service": _slug(objective.pattern)[:NAME_MAX].strip("-"),
            "indicator": {
                "metadata": {"name": name},
                "spec": {"thresholdMetric": {"metricSource": source}},
            },
            "timeWindow": [{"duration": WINDOW, "isRolling": True}],
            "budgetingMethod": "Occurrences",
            "objectives": [
                {
                    "displayName": _TITLES[kind],
                    "op": "lte" if kind == "latency_p99_us" else "gte",
                    "value": int(value) if value == int(value) else value,
                    "target": TARGET,
                }
            ],
        },
    }


def documents(objectives: Objectives) -> Iterator[dict[str, Any]]:
    """Yield a document for each SLO of cgroups, in the order of the objectives.

    Objectives of Kubernetes workloads are left out: metrics have the label `cgroup`, but no
    Kubernetes names.
    """
    taken: set[str] = set()
    for objective in objectives.tenants:
        if workload_pattern(objective.pattern) is not None:
            continue
        for kind in METRICS:
            if getattr(objective, kind) is not None:
                yield _slo(objective, kind, taken)


def openslo_yaml(objectives: Objectives) -> tuple[str, list[str]]:
    """Return the text of all documents, and one note for each fact that OpenSLO cannot express."""
    text = yaml.safe_dump_all(documents(objectives), sort_keys=False, allow_unicode=True)
    left = [one.pattern for one in objectives.tenants if not one.has_slo]
    notes = [f"{pattern}: has no SLO, and OpenSLO has no key for the rest" for pattern in left]
    named = [one for one in objectives.tenants if workload_pattern(one.pattern) is not None]
    told = "names a workload, of which no metric has the name: left out"
    notes += [f"{one.pattern}: {told}" for one in named if one.has_slo]
    if objectives.goal is not Objectives.goal:
        notes.append(f"goal = {objectives.goal}: OpenSLO has no word for it")
    return text, notes
