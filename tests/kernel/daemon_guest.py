# SPDX-License-Identifier: Apache-2.0
"""In the guest: the agent as it is installed, under a controller on the host.

Two tenants read. One is pinned to a policy and then to a limit, through the controller's API; the
agent is killed and starts again. Then another controller puts a policy and a limit on trial, and
dies. Prints a line of JSON for each step.
Usage: daemon_guest.py AGENT CONFIG TRIAL API: configurations for both controllers, and the address
of the first one seen from here.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOUNT = Path("/sys/fs/cgroup")
PINS = Path("/sys/fs/bpf/cachepilot")
FILES = {name: Path("/mnt/scratch") / name for name in ("t-a", "t-b")}
MIB = 1 << 20
FILE_MIB = 24
LIMIT_MIB = 16
WITHIN_SECONDS = 60.0
# QEMU hands 10.0.2.2 to the host's loopback interface, where the controller answers no other name.
HEADERS = {"content-type": "application/json", "host": "localhost"}
CALLS = ("ip link set eth0 up", "ip address add 10.0.2.15/24 dev eth0")


def tell(step: str, **what: Any) -> None:
    print(json.dumps({"step": step, **what}), flush=True)


def number(cgroup: str, name: str) -> int | None:
    text = (MOUNT / cgroup / name).read_text().strip()
    return None if text == "max" else int(text)


def policy(cgroup: str) -> str:
    lines = (MOUNT / cgroup / "memory.cache_ext").read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines)["policy"]


def ask(url: str, what: dict[str, Any] | None = None) -> Any:
    body = None if what is None else json.dumps(what).encode()
    request = urllib.request.Request(url, body, HEADERS)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


def until(what: str, look: Callable[[], Any]) -> Any:
    """What `look` finds at last that is not None."""
    deadline = time.monotonic() + WITHIN_SECONDS
    while time.monotonic() < deadline:
        found = look()
        if found is not None:
            return found
        time.sleep(0.1)
    raise SystemExit(f"not within {WITHIN_SECONDS:g} s: {what}")


def reader(cgroup: str) -> int:
    """A process that reads the file of a cgroup over and over."""
    child = os.fork()
    if child == 0:
        (MOUNT / cgroup / "cgroup.procs").write_text(str(os.getpid()))
        fd = os.open(FILES[cgroup], os.O_RDONLY)
        while True:
            if not os.read(fd, 1 << 14):
                os.lseek(fd, 0, os.SEEK_SET)
                time.sleep(0.05)
    return child


class Told:
    """What the controller tells."""

    def __init__(self, api: str) -> None:
        self.api = api

    def tenants(self) -> dict[str, Any]:
        return {tenant["cgroup"]: tenant for tenant in ask(f"{self.api}/tenants")}

    def curves(self) -> dict[str, Any] | None:
        """Each tenant's curves, once there are curves of both."""
        found = {name: ask(f"{self.api}/tenants/detail?cgroup={name}") for name in self.tenants()}
        curves = {name: detail["curves"] for name, detail in found.items()}
        return curves if len(curves) == 2 and all(curves.values()) else None

    def pin(self, **what: Any) -> None:
        ask(f"{self.api}/pins", {"cgroup": "/t-a", **what})

    def last_seen_s(self) -> float:
        [node] = ask(f"{self.api}/nodes")
        return float(node["last_seen_s"])


def lower(told: Told) -> None:
    """A pinned limit: `memory.high` follows reclaim down to it."""
    told.pin(policy="lfu", limit_bytes=LIMIT_MIB * MIB)
    steps: list[tuple[int | None, int | None]] = []

    def look() -> bool | None:
        steps.append((number("t-a", "memory.high"), number("t-a", "memory.current")))
        return steps[-1][0] == LIMIT_MIB * MIB or None

    until("the pinned limit in memory.high", look)

    def shown() -> Any:
        seen = told.tenants()["/t-a"]
        return seen if seen["limit_bytes"] == LIMIT_MIB * MIB else None

    seen = until("the pinned limit at the controller", shown)
    tell("limit", steps=steps, seen=seen, max=number("t-a", "memory.max"))


def has(cgroup: str) -> dict[str, Any]:
    return {"policy": policy(cgroup), "high": number(cgroup, "memory.high")}


def on_trial(program: str, config: str) -> None:
    """What a controller puts on trial that dies then, and what the agent alone makes of it."""
    before = has("t-a")
    agent = subprocess.Popen([program, "run", "--config", config])
    changed = until("both on trial", lambda: _if_both_differ(before, has("t-a")))
    began = time.monotonic()
    until("both as before", lambda: before if has("t-a") == before else None)
    seconds = time.monotonic() - began
    tell("trial", before=before, changed=changed, back=has("t-a"), seconds=seconds)
    agent.terminate()
    agent.wait()


def _if_both_differ(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any] | None:
    return now if all(now[key] != before[key] for key in before) else None


def main() -> None:
    program, config, trial, api = sys.argv[1:]
    told = Told(api)
    for call in CALLS:
        subprocess.run(call.split(), check=True)
    for cgroup, file in FILES.items():
        file.write_bytes(os.urandom(FILE_MIB * MIB))
        (MOUNT / cgroup).mkdir()
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    readers = [reader(cgroup) for cgroup in FILES]
    agent = subprocess.Popen([program, "run", "--config", config])
    tell("curves", curves=until("curves of both tenants", told.curves), seen=told.tenants())
    told.pin(policy="lfu")
    until("the pinned policy in the kernel", lambda: policy("t-a") == "lfu" or None)
    tell("policy", files={name: policy(name) for name in FILES})
    lower(told)
    agent.kill()
    agent.wait()
    tell("killed", **has("t-a"))
    before = told.last_seen_s()
    agent = subprocess.Popen([program, "run", "--config", config])
    until("a snapshot of the next agent", lambda: told.last_seen_s() > before or None)
    pins = sorted(path.name for path in PINS.iterdir())
    ident = str((MOUNT / "t-a").stat().st_ino)
    tell("again", **has("t-a"), pins=pins, ident=ident, seen=told.tenants())
    agent.terminate()
    tell("ended", status=agent.wait(), policy=policy("t-a"))
    on_trial(program, trial)
    for child in readers:
        os.kill(child, 9)
        os.waitpid(child, 0)


main()
