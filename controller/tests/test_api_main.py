# SPDX-License-Identifier: Apache-2.0
"""The controller as a process: addresses that are in use, and the addresses of its clients."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from experiments.autopilot.children import free_port

from cachepilot.api.main import Controller, serve
from cachepilot.api.shapes.views import NodeView
from cachepilot.fleet.config import ControllerConfig


@pytest.mark.parametrize("taken", ["http", "listen"])
def test_an_address_that_is_taken_is_bad_input(tmp_path: Path, taken: str) -> None:
    config = tmp_path / "controller.toml"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ports = {"http": free_port(), "listen": free_port()} | {taken: other.getsockname()[1]}
        lines = [f'{key} = "127.0.0.1:{port}"' for key, port in ports.items()]
        config.write_text("\n".join([*lines, 'store = "c.db"']))
        done = subprocess.run(
            [sys.executable, "-m", "cachepilot.cli", "controller", "run", "--config", config],
            check=False, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    said = done.stderr.splitlines()
    errors = [line for line in said if line.startswith("cachepilot: error: ")]
    assert errors == said[-1:] and "Traceback" not in done.stderr
    assert f"{taken}: 127.0.0.1:{ports[taken]}: cannot be listened on" in errors[0]


async def test_the_history_names_the_address_of_a_client_and_not_what_it_claims(
    tmp_path: Path,
) -> None:
    listen, http = (f"127.0.0.1:{free_port()}" for _ in range(2))
    stop = asyncio.Event()
    config = ControllerConfig(listen=listen, http=http, store=tmp_path / "c.db")
    running = asyncio.create_task(serve(config, stop))
    claimed = {"X-Forwarded-For": "10.9.8.7", "X-Forwarded-Proto": "https"}
    transport = httpx.AsyncHTTPTransport(retries=10)
    url = f"http://{http}/api/v1"
    async with httpx.AsyncClient(base_url=url, headers=claimed, transport=transport) as client:
        answer = await client.post("/objectives", json={"cgroup": "/a"})
        assert answer.status_code == 200, answer.text
        (row,) = (await client.get("/changes")).json()
    stop.set()
    await running
    assert (row["by_kind"], row["by"]) == ("address", "127.0.0.1")


async def test_work_that_fails_is_logged_and_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Schedulers would go on with the old files of free memory if nothing wrote new ones."""
    config = ControllerConfig(
        listen="127.0.0.1:0", store=tmp_path / "c.db", free_dir=tmp_path / "free", interval_ms=100
    )
    found = Controller(config)
    found.fleet.join("plant")
    calls, nodes = list[int](), found.service.nodes

    def fails_once() -> list[NodeView]:
        calls.append(len(calls))
        if len(calls) == 1:
            raise ZeroDivisionError("by design")
        return nodes()

    monkeypatch.setattr(found.service, "nodes", fails_once)
    await found.start()
    try:
        async with asyncio.timeout(20):
            while not (tmp_path / "free" / "plant.json").exists():
                await asyncio.sleep(0.02)
    finally:
        await found.stop()
    told = [one.getMessage() for one in caplog.records if one.exc_info]
    assert told == ["free_dir: failed, and begins again"]
