# SPDX-License-Identifier: Apache-2.0
"""Stores that are in use, damaged or full: the messages, and the answers to clients."""

import contextlib
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from experiments.autopilot.children import free_port
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World
from fastapi.testclient import TestClient
from served import served

from cachepilot import cli
from cachepilot.api.app import create_app
from cachepilot.cli.asking.client import URL_VARIABLE
from cachepilot.store.failures import RECOVERED_S, Health, StoreError
from cachepilot.store.store import Store

SIZES = tuple(MIB * size for size in (16, 64, 128, 256))
DEADLINE_S = 60.0


def _config(folder: Path) -> Path:
    path = folder / "controller.toml"
    ports = [free_port(), free_port()]
    path.write_text(
        f'listen = "127.0.0.1:{ports[0]}"\nhttp = "127.0.0.1:{ports[1]}"\nstore = "c.db"\n'
    )
    return path


def _command(config: Path) -> list[str]:
    return [sys.executable, "-m", "cachepilot.cli", "controller", "run", "--config", str(config)]


def _refused(config: Path) -> str:
    """Start a controller that cannot begin, and return its one line of error."""
    done = subprocess.run(
        _command(config), check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    return line


@contextlib.contextmanager
def _running(config: Path, file_bytes: int | None = None) -> Iterator[httpx.Client]:
    """Run a controller as a process, and yield a client. Its files have at most `file_bytes`."""
    bound = [] if file_bytes is None else ["prlimit", f"--fsize={file_bytes}"]
    port = config.read_text().split('http = "127.0.0.1:')[1].split('"')[0]
    log = config.parent / "log"
    with log.open("wb") as out, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        process = subprocess.Popen([*bound, *_command(config)], stdout=out, stderr=out)
        try:
            end = time.monotonic() + DEADLINE_S
            while True:
                with contextlib.suppress(httpx.TransportError):
                    client.get("/livez")
                    break
                assert process.poll() is None and time.monotonic() < end, log.read_text()
                time.sleep(0.05)
            yield client
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE_S)


def test_a_second_controller_of_one_store_ends_with_one_line(tmp_path: Path) -> None:
    with _running(_config(tmp_path)) as client:
        (tmp_path / "second").mkdir()
        second = _config(tmp_path / "second")
        second.write_text(second.read_text().replace("c.db", "../c.db"))
        line = _refused(second)
        assert "another controller uses it" in line and "c.db" in line
        assert client.get("/healthz").json()["status"] == "ok"
    # The lock ended with the first controller.
    with _running(second) as client:
        assert client.get("/healthz").status_code == 200


def test_a_lock_ends_with_its_store_and_holds_for_every_name_of_it(tmp_path: Path) -> None:
    path, other = tmp_path / "c.db", tmp_path / "link.db"
    other.symlink_to(path)
    first = Store(path)
    for name in (path, other):
        with pytest.raises(StoreError, match="another controller uses it"):
            Store(name)
    first.close()
    Store(other).close()


def _damaged(path: Path, how: str) -> None:
    store = Store(path)
    for epoch in range(1, 40):
        store.save_record("n", epoch, str(list(range(epoch, 3000))).encode())
    store.close()
    data = bytearray(path.read_bytes())
    if how == "overwritten":
        path.write_bytes(b"not a database, " * 1000)
    elif how == "cut":
        path.write_bytes(data[: len(data) // 2])
    else:
        data[4096:20480] = os.urandom(16384)
        path.write_bytes(data)


@pytest.mark.parametrize("how", ["overwritten", "cut", "garbage"])
def test_a_damaged_store_ends_the_controller_with_one_line_that_says_what_to_do(
    tmp_path: Path, how: str
) -> None:
    config = _config(tmp_path)
    _damaged(tmp_path / "c.db", how)
    before = (tmp_path / "c.db").read_bytes()
    line = _refused(config)
    assert line.startswith("cachepilot: error: store ") and str(tmp_path / "c.db") in line
    assert "put a backup in its place, or move it away" in line
    assert (tmp_path / "c.db").read_bytes() == before


def test_a_store_that_may_not_be_written_is_refused_in_one_line(tmp_path: Path) -> None:
    config = _config(tmp_path)
    (tmp_path / "c.db").mkdir()
    assert "cannot be opened" in _refused(config)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("nothing may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def test_a_full_disk_is_said_once_shown_everywhere_and_over_when_there_is_room(
    small: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    curves = {"default": linear(512 * MIB), "lfu": linear(200 * MIB)}
    world = World(small, Plant([PlantTenant("/a", curves, 128 * MIB)], 256 * MIB, SIZES))
    world.run(3)
    # This leaves no free space inside the existing files.
    world.store._rows("PRAGMA wal_checkpoint(TRUNCATE)")
    app = create_app(world.service)
    client = TestClient(app, "http://127.0.0.1", raise_server_exceptions=False)
    before = client.get("/api/v1/objectives").json()
    with caplog.at_level(logging.INFO):
        caplog.clear()
        _fill(small / "filler")
        world.run(30)
        for method, path, body in (
            ("POST", "pins", {"cgroup": "/a", "policy": "lfu"}),
            ("POST", "objectives", {"cgroup": "/a", "hit_ratio": 0.5}),
            ("PUT", "objectives", {"tenant": []}),
        ):
            answer = client.request(method, f"/api/v1/{path}", json=body)
            assert answer.status_code == 507, answer.text
            assert "disk is full; free space" in answer.json()["error"]
        health = client.get("/healthz")
        assert health.status_code == 503 and health.json()["status"] == "failing"
        assert "disk is full" in health.json()["problem"]
        assert client.get("/livez").status_code == 200
        assert "cachepilot_store_failing 1.0" in client.get("/metrics").text
        assert "unsaved" in client.get("/api/v1/nodes").json()[0]["problem"]
        assert client.get("/api/v1/objectives").json() == before
        assert client.get("/api/v1/tenants").json()[0]["pinned_policy"] is None
        with served(world.service) as url:
            monkeypatch.setenv(URL_VARIABLE, url)
            for command in (
                ("pin", "/a", "--policy", "lfu"), ("slo", "set", "/a", "--hit-ratio", "0.5"),
            ):  # fmt: skip
                assert cli.run(command) == 2
                assert "disk is full; free space" in capsys.readouterr().err
        told = [one.getMessage() for one in caplog.records if one.name.startswith("cachepilot")]
        assert len(told) == 1 and "disk is full" in told[0], told
        (small / "filler").unlink()
        caplog.clear()
        now_s = world.store.now_s()
        monkeypatch.setattr(world.store._health, "_clock", lambda: now_s)
        world.run(1)
        now_s += RECOVERED_S
        world.run(2)
        health = client.get("/healthz")
        assert (health.status_code, health.json()["problem"]) == (200, "")
        told = [one.getMessage() for one in caplog.records if "store" in one.getMessage()]
        assert len(told) == 1 and "can be written again" in told[0], told
    assert not client.get("/api/v1/nodes").json()[0]["problem"]
    assert client.post("/api/v1/pins", json={"cgroup": "/a", "policy": "lfu"}).status_code == 200
    world.store.close()


def test_a_store_that_cannot_grow_is_reported_by_the_running_controller(tmp_path: Path) -> None:
    with _running(_config(tmp_path), file_bytes=1 << 20) as client:
        for number in range(200):
            tenant = [
                {"cgroup": f"/{number}/{i}/{'x' * 200}", "hit_ratio": 0.5} for i in range(100)
            ]
            answer = client.put("/api/v1/objectives", json={"tenant": tenant})
            if answer.status_code != 200:
                break
            kept = answer.json()
        assert answer.status_code in (503, 507) and "cannot be written" in answer.json()["error"]
        assert client.get("/api/v1/objectives").json() == kept
        assert client.get("/healthz").status_code == 503
    lines = (tmp_path / "log").read_text().splitlines()
    assert sum("cannot be written" in line for line in lines) == 1, lines
    assert not any("Traceback" in line for line in lines)


def test_a_store_that_is_written_now_and_then_does_not_count_as_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 0.0
    health = Health(tmp_path / "c.db", lambda: now_s)
    with caplog.at_level(logging.INFO):
        for _ in range(20):
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            health.failed("cannot be written", full)
            now_s += RECOVERED_S / 2
            health.succeeded()
        assert health.problem and len(caplog.records) == 1
        now_s -= 100
        health.succeeded()
        now_s += RECOVERED_S - 1
        health.succeeded()
        assert health.problem
        now_s += 1
        health.succeeded()
        health.succeeded()
    assert not health.problem and len(caplog.records) == 2
