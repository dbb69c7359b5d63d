# SPDX-License-Identifier: Apache-2.0
"""Controller, agent and command line as processes, with certificates on every connection."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from agent_configs import ONE_TENANT
from certificates import Authority, Issued
from experiments.autopilot.children import Child, Children, free_port

from cachepilot import agent
from cachepilot.errors import InputError

TOKEN = "o" * 40
DEADLINE_SECONDS = 300.0
CONTROLLER = """
listen = "127.0.0.1:{agents}"
http = "127.0.0.1:{http}"
store = "controller.db"
interval_ms = 100

[tls]
certificate = "{own.certificate}"
key = "{own.key}"
client_ca = "{client_ca}"

[access]
operator_tokens = "tokens"
"""
AGENT = """
node = "{node}"
controller = "https://localhost:{port}"
kind = "simulated"
state_dir = "{folder}/{node}"
metrics = ""
reconnect_max_ms = 100

[tls]
ca = "{ca}"
certificate = "{own.certificate}"
key = "{own.key}"
"""


@dataclass(frozen=True)
class Fleet:
    """A running controller, and two certificate authorities: ours and a stranger's."""

    folder: Path
    children: Children
    ours: Authority
    theirs: Authority
    agents_port: int
    http_port: int

    def start_agent(self, node: str, ca: Authority, own: Issued) -> Child:
        """Start an agent that trusts `ca` and presents `own`."""
        path = self.folder / f"{node}.toml"
        values = {"node": node, "port": self.agents_port, "folder": self.folder}
        path.write_text(AGENT.format(**values, ca=ca.certificate, own=own) + ONE_TENANT)
        command: list[str | Path] = [agent.find(os.environ), "run", "--config", path]
        return self.children.start(node, command)

    def ask(self, own: Issued, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run one command, which takes its credentials from the environment."""
        variables = {
            "CACHEPILOT_CONTROLLER": f"https://localhost:{self.http_port}",
            "CACHEPILOT_CA": self.ours.certificate,
            "CACHEPILOT_CERTIFICATE": own.certificate,
            "CACHEPILOT_KEY": own.key,
            "CACHEPILOT_TOKEN_FILE": self.folder / "tokens",
        }
        return run(variables, *arguments)


def run(variables: Mapping[str, object], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cachepilot.cli", *arguments],
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def until(child: Child, is_so: Callable[[str], bool]) -> str:
    """Wait until the log of a child satisfies `is_so`, and return it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        text = child.log.read_text("utf-8", "replace")
        if is_so(text):
            return text
        assert child.process.poll() is None and time.monotonic() < deadline, text
        time.sleep(0.05)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    try:
        agent.find(os.environ)
    except InputError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("fleet")
    ours, theirs = Authority(folder / "ours", "ours"), Authority(folder / "theirs", "theirs")
    (folder / "tokens").write_text(TOKEN)
    ports = {"agents": free_port(), "http": free_port()}
    own = ours.issue("controller")
    path = folder / "controller.toml"
    path.write_text(CONTROLLER.format(**ports, own=own, client_ca=ours.certificate))
    with Children(folder) as children:
        program = [sys.executable, "-m", "cachepilot.cli"]
        command: list[str | Path] = [*program, "controller", "run", "--config", path]
        controller = children.start("controller", command)
        until(controller, lambda text: "the dashboard and the API are at" in text)
        yield Fleet(folder, children, ours, theirs, ports["agents"], ports["http"])


def test_an_agent_with_its_certificate_has_a_session_and_an_operator_sees_it(fleet: Fleet) -> None:
    """The stream is between the real agent, over tonic, and the real controller, over grpcio."""
    one = fleet.start_agent("node-1", fleet.ours, fleet.ours.issue("node-1"))
    until(one, lambda text: "session with the controller" in text)
    operator = fleet.ours.issue("operator")
    deadline = time.monotonic() + DEADLINE_SECONDS
    state: dict[str, Any] = {"tenants": []}
    while not any(tenant["throughput_ops"] for tenant in state["tenants"]):
        assert time.monotonic() < deadline, state
        done = fleet.ask(operator, "status", "--json")
        # On a busy machine an answer may come too late.
        if "did not answer within" not in done.stderr:
            assert (done.returncode, done.stderr) == (0, "")
            state = json.loads(done.stdout)
    assert [(node["name"], node["connected"]) for node in state["nodes"]] == [("node-1", True)]
    assert [tenant["cgroup"] for tenant in state["tenants"]] == ["/a"]
    stranger = fleet.ask(fleet.theirs.issue("operator"), "status")
    assert stranger.returncode == 2 and stranger.stderr.count("\n") == 1
    assert (
        "wants a certificate that its client_ca signed: --certificate and --key" in stranger.stderr
    )


def test_strangers_have_no_session_and_say_why(fleet: Fleet) -> None:
    """Each side checks the certificate of the other."""
    ours, theirs = fleet.ours, fleet.theirs
    cases = {
        "wrong-own": (ours, theirs.issue("wrong-own"), "transport error"),
        "wrong-ca": (theirs, ours.issue("wrong-ca"), "UnknownIssuer"),
    }
    for node, (ca, own, why) in cases.items():
        child = fleet.start_agent(node, ca, own)
        text = until(child, lambda text: text.count("no session: ") > 0)
        lines = [line for line in text.splitlines() if "no session: " in line]
        assert any(why in line for line in lines), text
        assert "session with the controller" not in text


def test_an_agent_has_no_session_as_a_node_that_its_certificate_does_not_name(
    fleet: Fleet,
) -> None:
    child = fleet.start_agent("node-2", fleet.ours, fleet.ours.issue("node-3", "DNS:node-4"))
    text = until(child, lambda text: text.count("no session: ") > 0)
    assert "node node-2: the certificate names node-3, localhost, node-4 (allowed: " in text
    assert "session with the controller" not in text


@pytest.mark.parametrize("with_tls", [False, True])
def test_without_a_certificate_there_is_no_session(fleet: Fleet, with_tls: bool) -> None:
    address = f"localhost:{fleet.agents_port}"
    if with_tls:
        trusted = grpc.ssl_channel_credentials(fleet.ours.certificate.read_bytes())
        channel = grpc.secure_channel(address, trusted)
    else:
        channel = grpc.insecure_channel(address)
    with channel:
        method: Any = channel.stream_stream("/cachepilot.v1.Fleet/Session")
        call = method(iter(()), timeout=60)
        with pytest.raises(grpc.RpcError) as found:
            list(call)
    assert found.value.code() is grpc.StatusCode.UNAVAILABLE
