# SPDX-License-Identifier: Apache-2.0
"""Units, the Debian package and the manifests, as their own tools judge them."""

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cachepilot import agent
from cachepilot.control.config import read_config
from cachepilot.planner.objectives_file import read_objectives

ROOT = Path(__file__).resolve().parent.parent
UNITS = sorted((ROOT / "configs" / "systemd").glob("*.service"))
MANIFESTS = sorted((ROOT / "configs" / "kubernetes").glob("*.yaml"))
KUBERNETES = "1.31"
EXPOSURE_MAX = {"cachepilot-agent": 4.0, "cachepilot-controller": 2.0}


def _run(*command: object, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_are_well_formed_and_hardened(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    # The programs are not installed on the machine that runs the tests.
    copy.write_text(re.sub(r"(?m)^(Exec\w+=)\S+", r"\1/bin/true", unit.read_text("utf-8")))
    said = _run("systemd-analyze", "verify", "--man=no", copy)
    assert unit.name not in said, said
    said = _run("systemd-analyze", "security", "--offline=yes", copy)
    level = float(re.findall(r"exposure level for \S+: ([\d.]+)", said)[0])
    assert level <= EXPOSURE_MAX[unit.stem]


def test_a_unit_with_an_unknown_key_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "cachepilot-agent.service"
    text = UNITS[0].read_text("utf-8").replace("MemoryMin=", "MemoryMinimum=")
    copy.write_text(re.sub(r"(?m)^(Exec\w+=)\S+", r"\1/bin/true", text))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy], check=False, capture_output=True, text=True
    )
    assert "MemoryMinimum" in done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, unpacked."""
    said = _run("scripts/build_deb")
    built = re.findall(r"in '(.*\.deb)'", said)[0]
    folder = tmp_path_factory.mktemp("package")
    _run("dpkg-deb", "-x", ROOT / built, folder)
    _run("dpkg-deb", "-e", ROOT / built, folder / "DEBIAN")
    return folder


def test_the_package_holds_an_agent_that_runs(package: Path) -> None:
    program = package / "usr/bin/cachepilot-agent"
    assert _run(program, "--version").startswith("cachepilot-agent ")
    config = package / "etc/cachepilot/agent.toml"
    assert "127.0.0.1:7070" in _run(program, "check-config", "--config", config)
    objects = {path.name for path in (package / "usr/lib/cachepilot/bpf").iterdir()}
    assert objects == {path.name for path in (ROOT / "build" / "bpf").iterdir()}


def test_the_package_states_what_it_needs(package: Path) -> None:
    control = (package / "DEBIAN/control").read_text("utf-8")
    depends = re.findall(r"(?m)^Depends: (.*)$", control)[0]
    names = {one.split()[0] for one in depends.split(", ")}
    assert "libc6" in names and names <= {"libc6", "libelf1", "libgcc-s1", "zlib1g"}
    assert (package / "DEBIAN/conffiles").read_text("utf-8") == "/etc/cachepilot/agent.toml\n"
    unit = package / "lib/systemd/system/cachepilot-agent.service"
    for path in re.findall(r"(?m)^ExecStart=(\S+)", unit.read_text("utf-8")):
        assert (package / path.lstrip("/")).is_file()


def _documents() -> list[dict[str, Any]]:
    return [
        document
        for path in MANIFESTS
        for document in yaml.safe_load_all(path.read_text("utf-8"))
        if document
    ]


@pytest.mark.parametrize("document", _documents(), ids=lambda one: one["kind"])
def test_manifests_follow_the_schema(document: dict[str, Any]) -> None:
    kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_a_manifest_with_an_unknown_key_is_refused() -> None:
    document = next(one for one in _documents() if one["kind"] == "DaemonSet")
    document["spec"]["template"]["spec"]["hostNetworking"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


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


def test_the_configurations_in_the_manifests_are_accepted(tmp_path: Path) -> None:
    # Secrets are mounted there in a cluster; what they hold is not looked at here.
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).touch()
    for one in _documents():
        if one["kind"] == "ConfigMap":
            for name, text in one["data"].items():
                here = text.replace("/etc/cachepilot/tls", str(tmp_path))
                (tmp_path / name).write_text(here, "utf-8")
    config = read_config(tmp_path / "controller.toml")
    assert config.tls is not None
    assert len(read_objectives(tmp_path / "objectives.toml").tenants) == 1
    program = agent.find(os.environ)
    _run(program, "check-config", "--config", tmp_path / "agent.toml")
    told = tomllib.loads((tmp_path / "agent.toml").read_text("utf-8"))
    assert told["controller"].startswith("https://")
