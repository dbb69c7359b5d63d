# SPDX-License-Identifier: Apache-2.0
"""Guest program: limits of units of a real systemd, and of a cgroup below a delegated unit.

Prints a line of JSON for each step. Usage: units_guest.py AGENT OBJECTS UNIT CONFIG NODE. The first
four are what systemd_guest installs.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import systemd_guest as systemd
from guest_tools import tell
from node_process import Node

MOUNT = Path("/sys/fs/cgroup")
SLICE = MOUNT / "system.slice"
STATE = Path("/tmp/state")
OWN, DELEGATED = "t-own.service", "t-delegated.service"
CHILD = f"{DELEGATED}/child"
MIB = 1 << 20
FIRST_MIB = 60
LIMIT_MIB = 40
WITHIN_SECONDS = 30.0


def systemctl(*words: str) -> str:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def has(unit: str, cgroup: str | None = None) -> dict[str, str]:
    """Return the limit according to systemd and according to the kernel."""
    shown = systemctl("show", "--property=MemoryHigh", "--value", unit)
    return {"unit": shown, "file": (SLICE / (cgroup or unit) / "memory.high").read_text().strip()}


def write_units() -> None:
    texts = {
        OWN: f"MemoryHigh={FIRST_MIB}M\nManagedOOMMemoryPressure=kill\n",
        DELEGATED: "Delegate=yes\n",
    }
    for name, text in texts.items():
        unit = f"[Service]\nExecStart=/bin/sleep infinity\nMemoryAccounting=yes\n{text}"
        (systemd.UNITS / name).write_text(unit)
    systemctl("daemon-reload")
    systemctl("start", *texts)
    # The owner of a delegated subtree divides it into cgroups of its own.
    control = SLICE / DELEGATED / "cgroup.subtree_control"
    child = SLICE / CHILD
    child.mkdir()
    for line in (SLICE / DELEGATED / "cgroup.procs").read_text().splitlines():
        (child / "cgroup.procs").write_text(line)
    control.write_text("+memory")


def settled(node: Node, cgroup: str, high_mib: int | None) -> None:
    """Wait until a limit is written, which may take longer than the node waits for it."""
    deadline = time.monotonic() + WITHIN_SECONDS
    expected = "max" if high_mib is None else str(high_mib * MIB)
    while (SLICE / cgroup / "memory.high").read_text().strip() != expected:
        if time.monotonic() > deadline:
            break
        node.ask("tick 50")


def steer(program: str) -> None:
    first = has(OWN)
    with Node(program, STATE, f"system.slice/{OWN}", "blind") as node:
        asked = node.ask(f"apply /system.slice/{OWN} - {LIMIT_MIB * MIB}")
        settled(node, OWN, LIMIT_MIB)
        tell("set", first=first, asked=asked, now=has(OWN))
        systemctl("daemon-reload")
        node.ask("tick 1000")
        tell("reloaded", now=has(OWN), seen=node.ask("observe"))
        released = node.ask("release")
        settled(node, OWN, FIRST_MIB)
        node.ask("tick 100")
        node.ask("release")
        tell("released", asked=released, now=has(OWN), seen=node.ask("observe"))
        node.ask(f"apply /system.slice/{OWN} - {LIMIT_MIB * MIB}")
        settled(node, OWN, LIMIT_MIB)
    systemctl("restart", OWN)
    inherited = has(OWN)
    with Node(program, STATE, f"system.slice/{OWN}", "blind") as node:
        settled(node, OWN, FIRST_MIB)
        tell("restarted", inherited=inherited, now=has(OWN), seen=node.ask("observe"))


def delegated(program: str) -> None:
    with Node(program, STATE, f"system.slice/{CHILD}", "blind") as node:
        asked = node.ask(f"apply /system.slice/{CHILD} - {LIMIT_MIB * MIB}")
        settled(node, CHILD, LIMIT_MIB)
        now = has(DELEGATED, CHILD)
        node.ask("release")
        settled(node, CHILD, None)
        tell("delegated", asked=asked, now=now, after=has(DELEGATED, CHILD))


def main() -> None:
    *installed, program = sys.argv[1:]
    systemd.overlay()
    systemd.install(*map(Path, installed))
    systemd.install_bus()
    manager = systemd.boot()
    systemctl("start", *systemd.BUS)
    write_units()
    steer(program)
    delegated(program)
    command = [installed[0], "doctor", "--dir", "/mnt/scratch", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    tell("doctor", checks={one["name"]: one for one in json.loads(done.stdout)["checks"]})
    os.kill(manager.pid, 9)
    os.waitpid(manager.pid, 0)


main()
