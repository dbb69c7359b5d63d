# SPDX-License-Identifier: Apache-2.0
"""The exports of a consolidation say what the plan says, in the formats of other tools."""

import json
from typing import Any

import pytest
import yaml
from cli_runs import Run, run
from fake_service import FakeService
from served import served

from cachepilot.api.shapes.questions import Consolidation, Drain, Move
from cachepilot.api.shapes.views import TenantView, WorkloadView
from cachepilot.cli.exports.ansible import inventory
from cachepilot.cli.exports.export import EXPORTS, ExportForm
from cachepilot.cli.exports.kubernetes import HOST, LEAST_MEMORY, Owner, manifests, owner_of

MIB = 1 << 20
__all__ = ["run"]


def _move(cgroup: str, to: str = "alpha", mib: int = 64) -> Move:
    return Move(
        cgroup=cgroup, from_node="beta", to_node=to, limit_bytes=mib * MIB, policy="lfu",
        predicted_ops=4200.0, cold_pages=1000, cold_s=2.0,
    )  # fmt: skip


def _plan(*moves: Move) -> Consolidation:
    drain = Drain(node="beta", moves=moves, freed_bytes=512 * MIB)
    return Consolidation(nodes=3, tenants=[], drains=[drain], notes=[])


def _pod(cgroup: str, pod: str, container: str = "", **labels: str) -> TenantView:
    told = WorkloadView(
        namespace="shop", pod=pod, container=container,
        labels={name.replace("_", "-"): value for name, value in labels.items()},
    )  # fmt: skip
    return (
        FakeService()
        .all_tenants[0]
        .model_copy(update={"node": "beta", "cgroup": cgroup, "workload": told})
    )


WEB = _pod("/web", "web-7d4b9-x2x9k", pod_template_hash="7d4b9")
DB = _pod("/db/a", "db-0", "postgres", controller_revision_hash="db-5f")
BESIDE = _pod("/db/b", "db-0", "exporter", controller_revision_hash="db-5f")
AGENT = _pod("/agent", "agent-k2jx4", controller_revision_hash="5f8")
BARE = _pod("/bare", "bare")


def _documents(text: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(text) if one is not None]


def test_the_workload_of_a_pod_is_read_from_its_labels() -> None:
    owners = [owner_of(one.workload) for one in (WEB, DB, AGENT, BARE) if one.workload]
    assert owners == [
        Owner("shop", "Deployment", "web"),
        Owner("shop", "StatefulSet", "db"),
        None,
        None,
    ]


def test_kubernetes_gets_cordons_and_affinities_and_the_rest_as_commands() -> None:
    moves = [_move("/web"), _move("/db/a"), _move("/db/b", mib=16), _move("/bare"), _move("/x")]
    text = manifests(_plan(*moves), [WEB, DB, BESIDE, BARE])
    cordon, *patches = _documents(text)
    assert (cordon["kind"], cordon["metadata"]) == ("Node", {"name": "beta"})
    assert cordon["spec"] == {"unschedulable": True}
    found = {one["metadata"]["name"]: one for one in patches}
    assert {name: one["kind"] for name, one in found.items()} == {
        "web": "Deployment",
        "db": "StatefulSet",
    }
    for one in found.values():
        affinity = one["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        rule = affinity["preferredDuringSchedulingIgnoredDuringExecution"][0]
        assert rule["preference"]["matchExpressions"] == [
            {"key": HOST, "operator": "In", "values": ["alpha"]}
        ]
    assert found["db"]["metadata"]["annotations"] == {LEAST_MEMORY: str(80 * MIB)}
    assert "kubectl drain beta " in text
    by_hand = [line for line in text.splitlines() if "by hand" in line]
    assert [line.split()[4] for line in by_hand] == ["/x", "/bare"]


def test_replicas_that_go_to_several_nodes_are_one_affinity() -> None:
    other = _pod("/web2", "web-7d4b9-aaaaa", pod_template_hash="7d4b9")
    text = manifests(_plan(_move("/web"), _move("/web2", to="gamma", mib=96)), [WEB, other])
    (patch,) = _documents(text)[1:]
    affinity = patch["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    rule = affinity["preferredDuringSchedulingIgnoredDuringExecution"][0]
    assert rule["preference"]["matchExpressions"][0]["values"] == ["alpha", "gamma"]
    assert patch["metadata"]["annotations"] == {LEAST_MEMORY: str(96 * MIB)}


def test_ansible_gets_groups_of_hosts() -> None:
    groups = yaml.safe_load(inventory(_plan(_move("/web"), _move("/db")), []))["all"]["children"]
    host = groups["cachepilot_drained"]["hosts"]["beta"]
    assert host["cachepilot_order"] == 1
    assert [one["cgroup"] for one in host["cachepilot_moves"]] == ["/web", "/db"]
    assert groups["cachepilot_targets"]["hosts"] == {
        "alpha": {"cachepilot_arrivals": ["/web", "/db"]}
    }


@pytest.mark.parametrize("form", list(ExportForm))
def test_no_drain_is_no_work(form: ExportForm) -> None:
    nothing = Consolidation(nodes=1, tenants=[], drains=[], notes=[])
    text = EXPORTS[form](nothing, [])
    assert "beta" not in text
    assert "drain " not in text
    list(yaml.safe_load_all(text))


def test_the_command_prints_an_export(run: Run) -> None:
    with served(FakeService()) as url:
        status, out, _ = run(url, "consolidate", "--export", "json")
        assert status == 0
        plan = Consolidation.model_validate(
            {"nodes": 2, "tenants": [], "notes": [], **json.loads(out)}
        )
        assert plan.drains == FakeService().consolidation().drains
        assert run(url, "consolidate", "--export", "ansible")[0] == 0
        assert run(url, "consolidate", "--export", "kubernetes")[0] == 0
        assert run(url, "consolidate", "--export", "nomad")[0] == 2


def test_names_are_no_templates_commands_or_manifests() -> None:
    template = "/x{{ lookup('pipe', 'id') }}"
    text = inventory(_plan(_move(template)), [])
    assert (
        f'!unsafe "{template}"' in text
        or f"!unsafe '{template.replace(chr(39), 2 * chr(39))}'" in text
    )
    broken = "/bare\u2028kind: Pod"
    plan = Consolidation(
        nodes=3, tenants=[], notes=[],
        drains=[Drain(node="a; id", moves=(_move(broken),), freed_bytes=MIB)],
    )  # fmt: skip
    shown = manifests(plan, [])
    assert "kubectl drain 'a; id' " in shown
    assert "\u2028" not in shown and [one["kind"] for one in _documents(shown)] == ["Node"]


def test_replicas_that_stay_are_not_drawn_away() -> None:
    stays = WEB.model_copy(update={"node": "gamma", "cgroup": "/web2"})
    shown = manifests(_plan(_move("/web")), [WEB, stays])
    assert '"gamma"' in shown or "- gamma" in shown
