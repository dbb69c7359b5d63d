# SPDX-License-Identifier: Apache-2.0
"""The manifests: their schema, their order, and their configuration in use."""

import json
import os
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from certificates import Authority, Issued
from docs_examples import examples, port_forwarded
from experiments.autopilot.children import Child, Children, free_port

from cachepilot import agent
from cachepilot.domain.objectives.file import read_objectives

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "configs" / "kubernetes"
KUSTOMIZATION = FOLDER / "kustomization.yaml"
MANIFESTS = sorted(set(FOLDER.glob("*.yaml")) - {KUSTOMIZATION})
KUBERNETES = "1.31"
MOUNTED = "/etc/cachepilot"
DEADLINE_SECONDS = 120.0


def _of_file(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text("utf-8")) if one]


def _documents() -> list[dict[str, Any]]:
    return [document for path in MANIFESTS for document in _of_file(path)]


@pytest.mark.parametrize("document", _documents(), ids=lambda one: one["kind"])
def test_manifests_follow_the_schema(document: dict[str, Any]) -> None:
    kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_a_manifest_with_an_unknown_key_is_refused() -> None:
    document = next(one for one in _documents() if one["kind"] == "DaemonSet")
    document["spec"]["template"]["spec"]["hostNetworking"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_the_agent_may_pin_policies_where_runtimes_confine_containers() -> None:
    agents = next(one for one in _documents() if one["kind"] == "DaemonSet")
    context = agents["spec"]["template"]["spec"]["containers"][0]["securityContext"]
    assert context["appArmorProfile"] == {"type": "Unconfined"}


def test_manifests_name_what_is_there() -> None:
    named = {(one["kind"], one["metadata"]["name"]) for one in _documents()}
    assert {"DaemonSet", "Deployment", "Role", "ConfigMap"} <= {kind for kind, _ in named}
    for one in _documents():
        pod = one.get("spec", {}).get("template", {}).get("spec")
        if pod is None:
            continue
        assert ("ServiceAccount", pod["serviceAccountName"]) in named
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in named
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes.keys()


def test_manifests_are_applied_together_with_the_namespace_first() -> None:
    """In the order of file names the namespace would be last, and the others refused at first."""
    (kustomization,) = _of_file(KUSTOMIZATION)
    listed = kustomization["resources"]
    assert sorted(listed) == [path.name for path in MANIFESTS]
    ordered = [document for name in listed for document in _of_file(FOLDER / name)]
    (namespace, *others) = ordered
    assert namespace["kind"] == "Namespace"
    name = namespace["metadata"]["name"]
    assert {one["metadata"]["namespace"] for one in others} == {name}
    page = ROOT / "docs" / "operating" / "kubernetes.md"
    applied = [one.line for one in examples([page]) if one.line.startswith("kubectl apply")]
    assert applied == [f"kubectl apply -k {FOLDER.relative_to(ROOT)}"]


def _patched(document: Any, operation: dict[str, Any]) -> None:
    """Apply one operation of a JSON patch (RFC 6902), of the kinds in the page."""
    *above, last = operation["path"].strip("/").split("/")
    for key in above:
        document = document[int(key) if isinstance(document, list) else key]
    assert last in document
    if operation["op"] == "remove":
        del document[last]
    else:
        assert operation["op"] == "replace"
        document[last] = operation["value"]


def test_the_command_to_release_runs_on_all_nodes_at_once() -> None:
    lines = [one.line for one in examples([ROOT / "docs" / "operating" / "kubernetes.md"])]
    (line,) = [one for one in lines if "patch daemonset" in one]
    words = shlex.split(line)
    daemon_set = next(one for one in _documents() if one["kind"] == "DaemonSet")
    metadata = daemon_set["metadata"]
    assert words[:6] == ["kubectl", "-n", metadata["namespace"], *words[3:5], metadata["name"]]
    for operation in json.loads(words[words.index("-p") + 1]):
        _patched(daemon_set, operation)
    kubernetes_validate.validate(daemon_set, KUBERNETES, strict=True)
    assert daemon_set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "100%"
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    program = [agent.find(os.environ), *container["args"]]
    done = subprocess.run(program, check=False, capture_output=True, text=True)
    # The arguments are accepted; only the file is missing on this host.
    assert "/etc/cachepilot/agent.toml" in done.stderr and done.returncode == 2, done.stderr


@dataclass(frozen=True)
class Pod:
    """The configurations of the manifests as files, and the controller that runs with its own."""

    folder: Path
    authority: Authority
    http: int
    controller: Child

    def run(self, words: list[str], seconds: float) -> "subprocess.CompletedProcess[str]":
        """Run a command of the command line, with the pod's paths replaced by the test's files."""
        assert words[0] == "cachepilot"
        words = [word.replace(MOUNTED, str(self.folder)) for word in words[1:]]
        return subprocess.run(
            [sys.executable, "-m", "cachepilot.cli", *words],
            cwd=self.folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=seconds,
        )


def _mount(folder: Path, own: Issued, authority: Authority, ports: dict[str, int]) -> None:
    """Write what is mounted in the pods. Only addresses and paths differ from the manifests."""
    (folder / "tls").mkdir()
    files = {"tls.crt": own.certificate, "tls.key": own.key, "ca.crt": authority.certificate}
    for name, path in files.items():
        (folder / "tls" / name).symlink_to(path)
    changed = {
        MOUNTED: str(folder),
        "/var/lib/cachepilot": str(folder),
        "0.0.0.0:7070": f"127.0.0.1:{ports['agents']}",
        "127.0.0.1:7071": f"127.0.0.1:{ports['http']}",
    }
    for one in _documents():
        if one["kind"] == "ConfigMap":
            for name, text in one["data"].items():
                here = text
                for old, new in changed.items():
                    here = here.replace(old, new)
                (folder / name).write_text(here, "utf-8")


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    folder = tmp_path_factory.mktemp("pod")
    authority = Authority(folder / "authority", "fleet")
    ports = {"agents": free_port(), "http": free_port()}
    _mount(folder, authority.issue("controller"), authority, ports)
    (container,) = _deployed("Deployment")["containers"]
    words = [one.replace(MOUNTED, str(folder)) for one in container["args"]]
    with Children(folder) as children:
        command: list[str | Path] = [sys.executable, "-m", "cachepilot.cli", *words]
        controller = children.start("controller", command)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while "the dashboard and the API are at" not in controller.log.read_text("utf-8"):
            assert time.monotonic() < deadline
            children.check()
            time.sleep(0.05)
        yield Pod(folder, authority, ports["http"], controller)


def _deployed(kind: str) -> dict[str, Any]:
    (found,) = [one for one in _documents() if one["kind"] == kind]
    specification: dict[str, Any] = found["spec"]["template"]["spec"]
    return specification


@pytest.mark.parametrize("line", [one.line for one in port_forwarded()])
def test_people_reach_the_controller_as_the_page_says(pod: Pod, line: str) -> None:
    mine = pod.authority.issue("me")
    files = {"ca.crt": pod.authority.certificate, "me.crt": mine.certificate, "me.key": mine.key}
    for name, path in files.items():
        (pod.folder / name).symlink_to(path)
    words = shlex.split(line.replace(":7071", f":{pod.http}"))
    done = pod.run(words, DEADLINE_SECONDS)
    assert done.returncode == 0, done.stderr


def test_the_agents_configuration_is_accepted(pod: Pod) -> None:
    assert len(read_objectives(pod.folder / "objectives.toml").tenants) == 1
    done = subprocess.run(
        [agent.find(os.environ), "check-config", "--config", pod.folder / "agent.toml"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = tomllib.loads((pod.folder / "agent.toml").read_text("utf-8"))
    assert told["controller"].startswith("https://")


def test_the_controllers_probe_passes_while_it_lives_and_no_longer(pod: Pod) -> None:
    """Run last among the tests of this pod: it kills the controller."""
    (container,) = _deployed("Deployment")["containers"]
    probe = container["livenessProbe"]
    words = probe["exec"]["command"]
    alive = pod.run(words, DEADLINE_SECONDS)
    assert alive.returncode == 0, alive.stderr
    pod.controller.process.kill()
    pod.controller.process.wait()
    dead = pod.run(words, DEADLINE_SECONDS)
    assert dead.returncode == 2 and "no answer" in dead.stderr, dead.stderr
    listening = {port["name"] for port in container["ports"]}
    assert container["readinessProbe"]["tcpSocket"]["port"] in listening
