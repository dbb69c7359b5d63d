# SPDX-License-Identifier: Apache-2.0
"""Names from outside have one form, at every entry."""

import json
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachepilot.api.shapes.questions import Pin as PinShape
from cachepilot.domain.names import cgroup_path, cgroup_pattern, is_plain, node_name, plain
from cachepilot.domain.objectives.file import objectives_from, parse_objectives
from cachepilot.domain.objectives.objective import Objective
from cachepilot.domain.objectives.pins import Pin
from cachepilot.errors import InputError
from cachepilot.openslo.reading import parse_openslo
from cachepilot.sense.validate import ProtocolError, check_hello, check_snapshot
from cachepilot.v1 import session_pb2 as wire

BAD = ["", "/\ud800/kv", "/a\0b", "/a\nb", "/a/../b", "/./a", "/" + "a" * 4096]
PART = st.text(st.characters(exclude_characters="/\0\n", exclude_categories=["Cs"]), min_size=1)
PARTS = st.lists(PART.filter(lambda part: part not in (".", "..")), min_size=1, max_size=5)


@given(PARTS, st.lists(st.integers(1, 3), min_size=6, max_size=6), st.booleans(), st.booleans())
def test_all_spellings_of_a_path_are_one_cgroup(
    parts: list[str], slashes: list[int], is_rooted: bool, is_folder: bool
) -> None:
    written = "".join("/" * count + part for count, part in zip(slashes, parts, strict=False))
    written = written if is_rooted else written.lstrip("/")
    written += "/" * slashes[-1] if is_folder else ""
    path = cgroup_path(written)
    assert path == "/" + "/".join(parts)
    assert cgroup_path(path) == path


@given(st.text(st.sampled_from("/ab*?[].pod:"), max_size=8), PARTS)
def test_a_pattern_has_one_form_and_matches_what_it_did(text: str, parts: list[str]) -> None:
    cgroup = "/" + "/".join(parts)
    try:
        pattern = cgroup_pattern(text)
    except InputError:
        return
    assert cgroup_pattern(pattern) == pattern
    if "//" not in text and not text.endswith("/") and fnmatchcase(cgroup, text):
        assert fnmatchcase(cgroup, pattern)


@pytest.mark.parametrize("name", BAD)
def test_invalid_names_are_refused_in_one_encodable_line(name: str) -> None:
    for read in (cgroup_path, cgroup_pattern):
        with pytest.raises(InputError, match="allowed: ") as refused:
            read(name)
        told = str(refused.value)
        assert "\n" not in told and len(told.encode()) < 400


@pytest.mark.parametrize("name", ["", "a\n", "\ud800", "a\0", "n" * 254])
def test_invalid_node_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="253 printable characters") as refused:
        node_name(name)
    assert str(refused.value).encode()


def test_other_text_is_kept_as_it_is() -> None:
    assert plain("Größe 1\t/") == "Größe 1\t/"
    assert not any(map(is_plain, ("", "\ud800", "\0", "\n")))


def _slo(cgroup: str) -> str:
    """Return an OpenSLO document for one cgroup."""
    query = f"cachepilot_tenant_hit_ratio{{cgroup={json.dumps(cgroup)}}}"
    metric = {"metricSource": {"spec": {"query": query}}}
    spec = {
        "indicator": {"spec": {"thresholdMetric": metric}},
        "objectives": [{"op": "gte", "value": 0.5}],
    }
    return json.dumps(
        {"apiVersion": "openslo/v1", "kind": "SLO", "metadata": {"name": "a"}, "spec": spec}
    )


def _of_toml(cgroup: str) -> str:
    return parse_objectives(f"[[tenant]]\ncgroup = {json.dumps(cgroup)}", "o").tenants[0].pattern


def _of_openslo(cgroup: str) -> str:
    return parse_openslo(_slo(cgroup), "o")[0].tenants[0].pattern


def _of_json(cgroup: str) -> str:
    return objectives_from({"tenant": [{"cgroup": cgroup}]}, "o").tenants[0].pattern


def _of_objective(cgroup: str) -> str:
    return Objective(cgroup).pattern


def _of_pin(cgroup: str) -> str:
    return Pin(cgroup).cgroup


ENTRIES = {
    "TOML": _of_toml,
    "OpenSLO": _of_openslo,
    "JSON": _of_json,
    "an objective": _of_objective,
    "a pin": _of_pin,
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_takes_the_same_names(entry: str) -> None:
    read = ENTRIES[entry]
    for name in ("tenants/kv", "/tenants/kv", "//tenants//kv/"):
        assert read(name) == "/tenants/kv"
    for name in BAD:
        with pytest.raises(InputError):
            read(name)


@pytest.mark.parametrize("key", ["policies", "tasks", "memory_min", "indicator"])
@pytest.mark.parametrize("text", ["\ud800", "a\0b"])
def test_other_text_of_an_objective_is_checked_too(key: str, text: str) -> None:
    value = {"policies": [text], "tasks": [text], "memory_min": f"1{text}"}.get(
        key, {"prometheus": "http://localhost:1/", "metric": text}
    )
    with pytest.raises(InputError):
        objectives_from({"tenant": [{"cgroup": "/a", key: value}]}, "o")


@pytest.mark.parametrize("cgroup", ["/a\0b", "a", "/a/", "//a", "/a/.."])
def test_an_agent_may_only_send_paths_as_they_are_kept(cgroup: str) -> None:
    snapshot = wire.Snapshot(sequence=1, budget_bytes=1)
    snapshot.tenants.add(cgroup="/fine", policy="default")
    check_snapshot(snapshot, 0)
    snapshot.tenants.add(cgroup=cgroup, policy="default")
    with pytest.raises(ProtocolError, match="cgroup: "):
        check_snapshot(snapshot, 0)


def test_the_name_that_an_agent_gives_its_node_is_checked() -> None:
    check_hello(wire.Hello(node="n", budget_bytes=1))
    with pytest.raises(ProtocolError, match="hello: node: "):
        check_hello(wire.Hello(node="n\0", budget_bytes=1))


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("cgroup", {"cgroup": "", "policy": "lru"}),
        ("node", {"cgroup": "/a", "node": "n\0", "policy": "lru"}),
        ("policy", {"cgroup": "/a", "policy": "a\0b"}),
    ],
)
def test_a_name_that_is_refused_is_named_by_its_key(key: str, told: dict[str, str]) -> None:
    with pytest.raises(InputError, match=f"^{key}: "):
        PinShape.model_validate(told)
