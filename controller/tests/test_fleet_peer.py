# SPDX-License-Identifier: Apache-2.0
"""A certificate is valid for the nodes that it names, and for no others."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from certificates import Authority, Issued

from cachepilot.api.main import Controller
from cachepilot.fleet.config import ControllerConfig, Tls
from cachepilot.fleet.peer import SHOWN_MAX, StrangerError, check_peer, named_nodes
from cachepilot.v1 import session_pb2 as wire

DEADLINE_S = 20.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("fleet") / "ours", "ours")


async def said(path: Path, authority: Authority, own: Issued, node: str) -> str:
    """Return the answer of a controller with mutual TLS to the hello of a node."""
    served = authority.issue("controller")
    tls = Tls(served.certificate, served.key, authority.certificate)
    running = Controller(ControllerConfig(listen="127.0.0.1:0", store=path / "c.db", tls=tls))
    await running.start()
    pair = (own.key.read_bytes(), own.certificate.read_bytes())
    shown = grpc.ssl_channel_credentials(authority.certificate.read_bytes(), *pair)
    try:
        async with grpc.aio.secure_channel(f"localhost:{running.server.port}", shown) as channel:
            method: Any = channel.stream_stream("/cachepilot.v1.Fleet/Session")
            call = method()
            hello = wire.Hello(node=node, budget_bytes=1 << 30)
            await call.write(wire.AgentMessage(hello=hello).SerializeToString())
            try:
                raw = await asyncio.wait_for(call.read(), DEADLINE_S)
            except grpc.aio.AioRpcError as error:
                assert not running.fleet.loops()
                return f"{error.code().name}: {error.details()}"
            return str(wire.ControllerMessage.FromString(raw).WhichOneof("message"))
    finally:
        await running.stop()


@pytest.mark.parametrize(
    ("subject", "others"),
    [
        ("node-1", ()),
        ("fleet", ("DNS:node-1", "DNS:node-2")),
        ("fleet", ("URI:spiffe://example.org/node/node-1",)),
    ],
)
async def test_a_certificate_opens_the_nodes_that_it_names(
    tmp_path: Path, authority: Authority, subject: str, others: tuple[str, ...]
) -> None:
    own = authority.issue(subject, *others)
    assert await said(tmp_path, authority, own, "node-1") == "welcome"


@pytest.mark.parametrize(
    "others", [("URI:spiffe://example.org/sa/node-2", "email:node-2", "DNS:node-2.example.org"), ()]
)
async def test_a_certificate_opens_no_other_node(
    tmp_path: Path, authority: Authority, others: tuple[str, ...]
) -> None:
    answer = await said(tmp_path, authority, authority.issue("node-1", *others), "node-2")
    assert answer.startswith("PERMISSION_DENIED: node node-2: the certificate names node-1, localh")


def test_names_are_the_subject_dns_names_and_uris_of_nodes() -> None:
    found = named_nodes(
        {
            "x509_common_name": [b"a"],
            "peer_dns": [b"b", b"a"],
            "peer_uri": [
                b"spiffe://x/node/c", b"spiffe://x/y/node/d", b"spiffe://x/node/e/f",
                b"spiffe://x/node/", b"spiffe://node/g", b"https://[/node/h", b"x:/node/i?/node/j",
            ],
            "peer_email": [b"k"],
            "peer_ip": [b"127.0.0.1"],
            "x509_subject_alternative_name": [b"l"],
        }
    )  # fmt: skip
    assert found == ["a", "b", "c", "d", "i"]


def test_a_refusal_is_one_line_of_bounded_length() -> None:
    with pytest.raises(StrangerError, match="names no node") as nobody:
        check_peer("n", {})
    many = [b"a\nb", *(f"node-{i}".encode() for i in range(1000))]
    with pytest.raises(StrangerError, match=f"and {1001 - SHOWN_MAX} more") as found:
        check_peer("n", {"x509_common_name": many[:1], "peer_dns": many[1:]})
    for error in (nobody, found):
        assert "\n" not in str(error.value) and len(str(error.value)) < 500
