# SPDX-License-Identifier: Apache-2.0
"""A consolidation as Kubernetes manifests, for `kubectl apply --server-side`.

Nodes to drain are cordoned. The workloads of their pods get a preferred node affinity for the nodes
of the plan; the scheduler decides. The workload of a pod is derived from the labels that the
workload's controller sets: `pod-template-hash` for a Deployment; `controller-revision-hash`,
together with a number at the end of the pod's name, for a StatefulSet. Other pods must be moved by
hand.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

import yaml

from cachepilot.api.shapes.questions import Consolidation, Move
from cachepilot.api.shapes.views import TenantView, WorkloadView

HOST = "kubernetes.io/hostname"
LEAST_MEMORY = "cachepilot.io/least-memory-bytes"
WEIGHT_MAX = 100


@dataclass(frozen=True, order=True)
class Owner:
    """The workload that a pod belongs to."""

    namespace: str
    kind: str
    name: str


def owner_of(pod: WorkloadView) -> Owner | None:
    """Return the workload of a pod, or None if its labels do not show it."""
    template = pod.labels.get("pod-template-hash")
    if template is not None:
        name, found, _ = pod.pod.rpartition(f"-{template}-")
        return Owner(pod.namespace, "Deployment", name) if found and name else None
    numbered = re.fullmatch(r"(.+)-\d+", pod.pod)
    if "controller-revision-hash" in pod.labels and numbered is not None:
        return Owner(pod.namespace, "StatefulSet", numbered[1])
    return None


def _cordon(node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node},
        "spec": {"unschedulable": True},
    }


def _affinity(owner: Owner, nodes: Sequence[str], least_bytes: int) -> dict[str, Any]:
    """Return a preferred node affinity, with the memory that a pod needs there as an annotation."""
    host = {"key": HOST, "operator": "In", "values": list(nodes)}
    preferred = {"weight": WEIGHT_MAX, "preference": {"matchExpressions": [host]}}
    rule = {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}
    return {
        "apiVersion": "apps/v1",
        "kind": owner.kind,
        "metadata": {
            "name": owner.name,
            "namespace": owner.namespace,
            "annotations": {LEAST_MEMORY: str(least_bytes)},
        },
        "spec": {"template": {"spec": {"affinity": {"nodeAffinity": rule}}}},
    }


@dataclass
class _Pod:
    """A pod that moves, with the moves of its cgroups."""

    told: WorkloadView
    moves: list[Move]

    @property
    def least_bytes(self) -> int:
        """The memory in bytes that its cgroups need on the target."""
        return sum(move.limit_bytes for move in self.moves)


def _pods(moves: Sequence[Move], tenants: Sequence[TenantView]) -> tuple[list[_Pod], list[Move]]:
    """Return the pods that move, and the moves of cgroups that belong to no pod."""
    known = {(one.node, one.cgroup): one.workload for one in tenants}
    pods: dict[tuple[str, str], _Pod] = {}
    others = []
    for move in moves:
        told = known.get((move.from_node, move.cgroup))
        if told is None:
            others.append(move)
        else:
            pods.setdefault((told.namespace, told.pod), _Pod(told, [])).moves.append(move)
    return list(pods.values()), others


def _comments(found: Consolidation, others: Sequence[Move]) -> Iterator[str]:
    yield "Predicted by cachepilot; it changes nothing by itself. With this file as plan.yaml:"
    yield "  kubectl apply --server-side --field-manager=cachepilot -f plan.yaml"
    for drain in found.drains:
        yield f"  kubectl drain {quote(drain.node)} --ignore-daemonsets --delete-emptydir-data"
    for move in others:
        yield f"Move by hand: {move.cgroup} from {move.from_node} to {move.to_node}"


def manifests(found: Consolidation, tenants: Sequence[TenantView]) -> str:
    """Return the manifests in the order of the plan, with the commands to run as comments."""
    moves = [move for drain in found.drains for move in drain.moves]
    pods, others = _pods(moves, tenants)
    nodes: dict[Owner, set[str]] = {}
    least: dict[Owner, int] = {}
    for pod in pods:
        owner = owner_of(pod.told)
        if owner is None:
            others += pod.moves
            continue
        nodes.setdefault(owner, set()).update(move.to_node for move in pod.moves)
        least[owner] = max(least.get(owner, 0), pod.least_bytes)
    drained = {drain.node for drain in found.drains}
    for one in tenants:
        # The affinity applies to all replicas: those that stay must not be drawn to other nodes.
        stays = None if one.workload is None or one.node in drained else owner_of(one.workload)
        if stays in nodes:
            nodes[stays].add(one.node)
    documents = [_cordon(drain.node) for drain in found.drains]
    documents += [_affinity(one, sorted(nodes[one]), least[one]) for one in sorted(nodes)]
    # A line separator in a name would end the comment.
    told = (one if one.isprintable() else ascii(one) for one in _comments(found, others))
    lines = "".join(f"# {line}\n" for line in told)
    return lines + yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True)
