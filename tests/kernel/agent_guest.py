# SPDX-License-Identifier: Apache-2.0
"""What guest programs ask of the kernel and of the controller while the agent runs in the guest."""

import json
import os
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from guest_tools import MOUNT, number, policy

PINS = Path("/sys/fs/bpf/cachepilot")
WITHIN_SECONDS = 60.0
# QEMU forwards 10.0.2.2 to the host's loopback interface, where the controller accepts no other
# name.
HEADERS = {"content-type": "application/json", "host": "localhost"}


def has(cgroup: str) -> dict[str, Any]:
    return {"policy": policy(cgroup), "high": number(cgroup, "memory.high")}


def pins(cgroup: str) -> Path:
    """Return the folder of the cgroup's pins, whether there is one or not."""
    return PINS / str((MOUNT / cgroup).stat().st_ino)


def ask(url: str, what: dict[str, Any] | None = None) -> Any:
    body = None if what is None else json.dumps(what).encode()
    request = urllib.request.Request(url, body, HEADERS)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


def until(what: str, look: Callable[[], Any], seconds: float = WITHIN_SECONDS) -> Any:
    """Call `look` until it returns something, and return that. Exit on a timeout."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found is not None:
            return found
        time.sleep(0.1)
    raise SystemExit(f"not within {seconds:g} s: {what}")


def until_so(what: str, holds: Callable[[], bool], seconds: float = WITHIN_SECONDS) -> float:
    """Wait until `holds` returns true, and return the seconds that it took. Exit on a timeout."""
    began = time.monotonic()
    until(what, lambda: holds() or None, seconds)
    return time.monotonic() - began


class Told:
    """A client of the controller's HTTP API."""

    def __init__(self, api: str) -> None:
        self.api = api

    def tenants(self) -> dict[str, Any]:
        return {tenant["cgroup"]: tenant for tenant in ask(f"{self.api}/tenants")}

    def curves(self) -> dict[str, Any] | None:
        """Return each tenant's curves once both tenants have curves; None before."""
        found = {name: ask(f"{self.api}/tenants/detail?cgroup={name}") for name in self.tenants()}
        curves = {name: detail["curves"] for name, detail in found.items()}
        return curves if len(curves) == 2 and all(curves.values()) else None

    def pin(self, cgroup: str = "/t-a", **what: Any) -> None:
        ask(f"{self.api}/pins", {"cgroup": cgroup, **what})

    def last_seen_s(self) -> float:
        [node] = ask(f"{self.api}/nodes")
        return float(node["last_seen_s"])

    def next_snapshot(self) -> None:
        """Wait until the controller has a snapshot that is newer than the last one."""
        before = self.last_seen_s()
        until_so("a snapshot of the agent", lambda: self.last_seen_s() > before)


def reader(cgroup: str, file: Path) -> int:
    """Start a process that reads a file in a cgroup over and over."""
    child = os.fork()
    if child == 0:
        Path("/proc/self/comm").write_text(f"reader-{cgroup}")
        (MOUNT / cgroup / "cgroup.procs").write_text("0")
        fd = os.open(file, os.O_RDONLY)
        while True:
            if not os.read(fd, 1 << 14):
                os.lseek(fd, 0, os.SEEK_SET)
                time.sleep(0.05)
    return child
