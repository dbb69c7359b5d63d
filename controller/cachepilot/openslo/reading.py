# SPDX-License-Identifier: Apache-2.0
"""Reads OpenSLO documents as objectives."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from cachepilot.domain.names import cgroup_pattern
from cachepilot.domain.objectives.file import ObjectivesError, objectives_from
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.errors import InputError
from cachepilot.openslo.document import (
    API_VERSION,
    KINDS,
    METRICS,
    PER_METRIC_UNIT,
    PREFIX,
    Sli,
    Slo,
    Threshold,
)
from cachepilot.openslo.export import TARGET

BYTES_MAX = 4 << 20
_CGROUP = re.compile(r'\bcgroup\s*=\s*("(?:[^"\\]|\\.)*")')
_PLAIN = ("cgroup", "memory_min", "memory_max", "mode")
"""Keys whose annotations are plain text; others are JSON, or text if they are not valid JSON."""
_Model = TypeVar("_Model", bound=BaseModel)


class OpenSloError(ValueError):
    """A document is refused; the message names the document, the key and what is allowed."""


def _validated(model: type[_Model], document: object) -> _Model:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise OpenSloError(f"{where}: {first['msg']}") from None


def _kind_of_slo(query: str) -> str:
    """Return the kind of SLO that a query is about."""
    for kind, metric in METRICS.items():
        if re.search(rf"\b{metric}\b", query):
            return kind
    raise OpenSloError(
        f"spec.indicator: {query!r} is not about a metric of cachepilot "
        f"(allowed: {', '.join(METRICS.values())})"
    )


def _value(kind: str, threshold: Threshold) -> float:
    wanted = ("lte", "lt") if kind == "latency_p99_us" else ("gte", "gt")
    if threshold.op not in wanted:
        allowed = " or ".join(wanted)
        raise OpenSloError(f"spec.objectives.0.op: {threshold.op} (allowed for {kind}: {allowed})")
    value = threshold.value * PER_METRIC_UNIT.get(kind, 1.0)
    return round(value, 9)


def _annotations(slo: Slo) -> dict[str, Any]:
    """Return the keys of the objectives file that the annotations contain."""
    found: dict[str, Any] = {}
    for name, text in slo.metadata.annotations.items():
        if not name.startswith(PREFIX):
            continue
        key = name.removeprefix(PREFIX)
        try:
            found[key] = text if key in _PLAIN else json.loads(text)
        except ValueError:
            found[key] = text
    return found


def _table(slo: Slo, indicators: Mapping[str, Sli]) -> dict[str, Any]:
    """Return one SLO with the keys of the objectives file."""
    spec = slo.spec
    if spec.indicator is not None:
        indicator = spec.indicator.spec
    elif spec.indicator_ref is not None and spec.indicator_ref in indicators:
        indicator = indicators[spec.indicator_ref].spec
    else:
        allowed = "allowed: indicator, or the name of an SLI of this file"
        raise OpenSloError(f"spec.indicatorRef: {spec.indicator_ref!r} ({allowed})")
    query = indicator.threshold_metric.metric_source.spec.query
    kind = _kind_of_slo(query)
    table = _annotations(slo)
    if "cgroup" not in table:
        named = _CGROUP.search(query)
        if named is None:
            raise OpenSloError(
                f"metadata.annotations: {PREFIX}cgroup is missing, and the query has no cgroup"
            )
        try:
            table["cgroup"] = json.loads(named[1])
        except ValueError as error:
            raise OpenSloError(f"query: cgroup: {named[1]}: {error}") from None
    try:
        table["cgroup"] = cgroup_pattern(table["cgroup"])
    except InputError as error:
        raise OpenSloError(f"{PREFIX}cgroup: {error}") from None
    return table | {kind: _value(kind, spec.objectives[0])}


def _merge(tables: dict[str, dict[str, Any]], table: dict[str, Any]) -> None:
    """Add an SLO to the objective of its cgroup."""
    statement = tables.setdefault(table["cgroup"], {})
    for key, value in table.items():
        if key in statement and (key in METRICS or statement[key] != value):
            raise OpenSloError(f"{table['cgroup']}: {key} is stated twice (allowed: once)")
        statement[key] = value


def _note(slo: Slo) -> list[str]:
    threshold = slo.spec.objectives[0]
    target = threshold.target
    if target is None and threshold.target_percent is not None:
        target = threshold.target_percent / 100
    if target is None or abs(target - TARGET) < 1e-9:
        return []
    name = slo.metadata.name
    return [f"{name}: target {target:g} is not kept; the alert rules are made for {TARGET:g}"]


def _documents(text: str) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the documents with their numbers; raise OpenSloError if one is not OpenSLO v1."""
    try:
        loaded = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise OpenSloError(f"not YAML: {' '.join(str(error).split())}") from None
    found = [(number, one) for number, one in enumerate(loaded, 1) if one is not None]
    if not found:
        raise OpenSloError("no documents (allowed: at least one SLO)")
    for number, one in found:
        version = one.get("apiVersion") if isinstance(one, Mapping) else None
        if version != API_VERSION:
            allowed = f"allowed: {API_VERSION}"
            raise OpenSloError(f"document {number}: apiVersion: {version!r} ({allowed})")
        if one.get("kind") not in KINDS:
            allowed = ", ".join(KINDS)
            raise OpenSloError(f"document {number}: kind: {one.get('kind')!r} (allowed: {allowed})")
    return found


def _parse(text: str) -> tuple[dict[str, Any], list[str]]:
    documents = _documents(text)
    tables: dict[str, dict[str, Any]] = {}
    indicators: dict[str, Sli] = {}
    notes: list[str] = []
    for number, document in documents:
        if document["kind"] == "SLI":
            try:
                sli = _validated(Sli, document)
            except OpenSloError as error:
                notes.append(f"document {number}: an SLI that is passed over: {error}")
            else:
                indicators[sli.metadata.name] = sli
    for number, document in documents:
        if document["kind"] != "SLO":
            continue
        try:
            slo = _validated(Slo, document)
            _merge(tables, _table(slo, indicators))
        except OpenSloError as error:
            raise OpenSloError(f"document {number}: {error}") from None
        notes += _note(slo)
    if not tables:
        raise OpenSloError("no document of kind SLO (allowed: at least one)")
    return {"tenant": list(tables.values())}, notes


def parse_openslo(text: str, source: str) -> tuple[Objectives, list[str]]:
    """Return the objectives of the documents, and one note for each value that is not kept.

    Raises ObjectivesError or InputError naming `source`, the document, the key and what is allowed.
    """
    try:
        document, notes = _parse(text)
    except OpenSloError as error:
        raise ObjectivesError(f"{source}: {error}") from None
    return objectives_from(document, source), notes


def read_openslo(path: Path) -> tuple[Objectives, list[str]]:
    """Parse a file of at most 4 MiB; see `parse_openslo`."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise ObjectivesError(f"{path}: more than {BYTES_MAX >> 20} MiB")
        return parse_openslo(data.decode("utf-8"), str(path))
    except OSError as error:
        raise ObjectivesError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ObjectivesError(f"{path}: not UTF-8") from None
