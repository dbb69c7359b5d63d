# SPDX-License-Identifier: Apache-2.0
"""Steps in which policies and limits end, or the agent does, under the unit and in the DaemonSet.

Each prints a line of JSON. `under` begins the names of steps that run under both.
"""

import subprocess
import time
from typing import Any

import systemd_guest as systemd
from agent_guest import PINS, Told, has, pins, until_so
from guest_tools import MOUNT, policy, tell

LEASE_SECONDS = 40.0
# Half of it exceeds the lease, so the lease of an agent that is stopped ends before the watchdog
# can.
WATCHDOG_SECONDS = 90
# Time to see what is in force between the end of the agent and its next start.
RESTART_SECONDS = 8
WATCHDOG = f"[Service]\nWatchdogSec={WATCHDOG_SECONDS}s\nRestartSec={RESTART_SECONDS}s\n"
# Several times what each step takes.
LONG = 200.0
LINK = "ip link set eth0"


def detach(told: Told, under: str) -> None:
    """Pin a tenant to a policy and then to the default."""
    told.pin("/t-b", policy="sieve")
    until_so("the policy to detach", lambda: policy("t-b") == "sieve")
    pinned = pins("t-b").exists()
    told.pin("/t-b", policy="default")
    until_so("the kernel's default", lambda: policy("t-b") == "none")
    until_so("no pins of a detached policy", lambda: not pins("t-b").exists())
    tell(f"{under} detached", pinned=pinned, **has("t-b"))


def remove_tenant(told: Told, under: str) -> None:
    """Remove a cgroup whose policy is pinned."""
    (MOUNT / "t-c").mkdir()
    until_so("a new tenant", lambda: "/t-c" in told.tenants())
    told.pin("/t-c", policy="lfu")
    until_so("the policy of a new tenant", lambda: policy("t-c") == "lfu")
    folder = pins("t-c")
    pinned = folder.exists()
    (MOUNT / "t-c").rmdir()
    until_so("no pins of a removed cgroup", lambda: not folder.exists())
    told.next_snapshot()
    tell(f"{under} removed", pinned=pinned, tenants=sorted(told.tenants()), **has("t-a"))


def end_lease(told: Told, under: str) -> None:
    """Cut the agent off from its controller until the lease ends, and connect it again."""
    before = has("t-a")
    told.next_snapshot()
    subprocess.run([*LINK.split(), "down"], check=True)
    seconds = until_so("a release when the lease ends", lambda: _is_released("t-a"), LONG)
    left = sorted(path.name for path in PINS.iterdir())
    released = has("t-a")
    subprocess.run([*LINK.split(), "up"], check=True)
    until_so("what the controller set", lambda: has("t-a") == before, LONG)
    tell(f"{under} lease", before=before, seconds=seconds, released=released, pins=left)


def _is_released(cgroup: str) -> bool:
    return has(cgroup) == {"policy": "none", "high": None}


def shorten_watchdog() -> None:
    """Start the agent with a watchdog that a test can wait for. Print the one that ships."""
    shipped = systemd.shown("WatchdogUSec", "RestartUSec")
    systemd.configure_unit("watchdog.conf", WATCHDOG)
    systemd.systemctl("restart")
    tell("watchdog", shipped=shipped, used=systemd.shown("WatchdogUSec", "RestartUSec"))


def kill(told: Told) -> None:
    """Kill the agent while its lease goes on."""
    tell("killed in lease", **_ended_by(told, "KILL"))


def stall(told: Told) -> None:
    """Stop the agent's process: the watchdog ends it, and since the lease has ended, all it set."""
    tell("stalled", **_ended_by(told, "STOP"))


def _ended_by(told: Told, signal: str) -> dict[str, Any]:
    """Send the agent a signal. Return what is in force between its end and its next start."""
    told.next_snapshot()
    before = has("t-a")
    restarts = systemd.shown("NRestarts")
    systemd.systemctl("kill", f"--signal={signal}")
    began = time.monotonic()
    seen: dict[str, Any] = {}

    def is_between() -> bool:
        seen.update(systemd.shown("SubState", "Result", "MainPID"))
        return bool(seen["SubState"] == "auto-restart")

    seconds = until_so("the end of the agent", is_between, LONG)
    between = has("t-a")
    still = systemd.shown("SubState")
    until_so("a new start", lambda: systemd.shown("NRestarts") != restarts)
    until_so("what the controller set", lambda: has("t-a") == before, LONG)
    told.next_snapshot()
    whole = time.monotonic() - began
    return {
        **seen,
        "before": before,
        "between": between,
        "still": still,
        "seconds": [seconds, whole],
    }
