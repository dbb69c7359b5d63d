# SPDX-License-Identifier: Apache-2.0
"""Objectives that name Kubernetes workloads instead of cgroups."""

from dataclasses import replace
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.domain.objectives.as_json import objectives_from_json, objectives_to_json
from cachepilot.domain.objectives.file import ObjectivesError, objective_from, parse_objectives
from cachepilot.domain.objectives.objective import UNNAMED, Mode, Objective, Objectives
from cachepilot.domain.objectives.pins import Pin, with_pins
from cachepilot.domain.objectives.workload import Workload, workload_pattern
from cachepilot.openslo.export import openslo_yaml
from cachepilot.v1 import session_pb2 as wire

LABELS = {"app": "db", "app.kubernetes.io/part-of": "shop", "tier": "gold-1"}
POD = "/kubepods.slice/kubepods-pod1b4c.slice"
DB = f"{POD}/cri-containerd-3f.scope"
WORKLOAD = Workload.of(DB, "shop", "db-0", "postgres", LABELS)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("pod:shop/db-0/postgres", True),
        ("pod:*/db-*/postgres", True),
        ("pod:shop/db-?/post*", True),
        ("pod:shop/db-0/postgres{}", True),
        ("pod:shop/db-0/postgres{app=db,tier=gold*}", True),
        ("pod:*/*/*{app.kubernetes.io/part-of=shop}", True),
        ("pod:shop/db-0", False),
        ("pod:shop/*", False),
        ("pod:shop/db-1/postgres", False),
        ("pod:sho/db-0/postgres", False),
        ("pod:shop/db-0/postgres{app=web}", False),
        ("pod:shop/db-0/postgres{zone=*}", False),
    ],
)
def test_names_and_labels_are_matched_whole(pattern: str, matches: bool) -> None:
    found = workload_pattern(pattern)
    assert found is not None and found.matches(WORKLOAD) is matches


def test_a_pod_is_not_its_containers() -> None:
    found = workload_pattern("pod:shop/db-*")
    assert found is not None and found.matches(replace(WORKLOAD, container=""))


@pytest.mark.parametrize(
    "pattern",
    [
        "pod:",
        "pod:shop",
        "pod:/db",
        "pod:a/b/c/d",
        "pod:a/b{app}",
        "pod:a/b{a*=b}",
        "pod:a/b{a=b",
        "pod:a b/c",
    ],
)
def test_invalid_patterns_are_refused_with_the_form(pattern: str) -> None:
    with pytest.raises(ObjectivesError, match=r"here: cgroup: .*pod:NAMESPACE/POD\[/CONTAINER\]"):
        objective_from({"cgroup": pattern}, "here")


def test_the_first_match_among_globs_and_names_holds() -> None:
    text = """
        [[tenant]]
        cgroup = "pod:shop/*/*"
        weight = 2
        [[tenant]]
        cgroup = "/kubepods.slice/*"
        weight = 3
        [[tenant]]
        cgroup = "/kubepods.slice/x"
        weight = 4
    """
    stated = parse_objectives(text, "objectives.toml")
    assert stated.of(DB).weight == 3, "nobody knows its name"
    known = stated.among([WORKLOAD])
    assert known.of(DB).weight == 2
    assert known.among([WORKLOAD]) is known
    assert (known.of(POD).weight, known.of("/kubepods.slice/x").weight) == (3, 4)
    assert known.of("/other") is UNNAMED
    pinned = with_pins(known, [Pin(DB, limit_bytes=8192)], "node")
    assert (pinned.of(DB).weight, pinned.of(DB).fixed is not None) == (2, True)


def test_without_such_a_statement_nothing_is_remembered_of_workloads() -> None:
    plain = Objectives((Objective("*"),))
    assert plain.among([WORKLOAD]) is plain


def test_workload_patterns_are_stored_and_read_again() -> None:
    known = Objectives((Objective("pod:shop/*/*"),)).among([WORKLOAD])
    assert objectives_from_json(objectives_to_json(known), "stored") == known


def test_openslo_says_what_it_has_no_word_for() -> None:
    text, notes = openslo_yaml(Objectives((Objective("pod:shop/*/*", throughput_ops=5.0),)))
    assert text == "" and len(notes) == 1 and "pod:shop/*/*: names a workload" in notes[0]


class Named(Plant):
    """A node whose container runtime knows the second tenant."""

    def snapshot(self) -> wire.Snapshot:
        found = super().snapshot()
        told = found.tenants[1].workload
        told.namespace, told.pod, told.container = "shop", "db-0", "postgres"
        told.labels["app"] = "db"
        return found


def test_an_objective_follows_the_name_and_not_the_path(tmp_path: Path) -> None:
    curves = {"default": linear(200 * MIB)}
    tenants = [PlantTenant("/a", curves, 64 * MIB), PlantTenant(DB, curves, 64 * MIB)]
    plant = Named(tenants, 256 * MIB, tuple(MIB * size for size in (8, 64, 128, 256)))
    stated = Objective("pod:shop/db-*/postgres{app=db}", mode=Mode.RECOMMEND, tasks=("backup",))
    world = World(tmp_path, plant, (stated,))
    world.run(3)
    detail = world.service.tenant(DB)
    assert (detail.tenant.mode, world.service.tenant("/a").tenant.mode) == ("recommend", "observe")
    assert detail.stated is not None and detail.stated.cgroup == stated.pattern
    assert detail.tenant.workload is not None
    assert detail.tenant.workload.labels == {"app": "db"}
    plant.pass_time()
    plan = world.loop.cycle(plant.snapshot())
    assert [(one.cgroup, list(one.names)) for one in plan.named_tasks] == [(DB, ["backup"])]
    rows = {one.cgroup: one for one in world.service.consolidation().tenants}
    assert set(rows) == {"/a", DB}
