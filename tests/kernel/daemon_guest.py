# SPDX-License-Identifier: Apache-2.0
"""Guest program: run the agent by the shipped systemd unit, under a controller on the host.

Two tenants read. The controller's API pins both to policies and one to a limit. The agent is killed
and starts again; policies are detached, a tenant is removed, the lease ends, and the watchdog ends
an agent that is stopped. Then another controller puts a policy and a limit on trial and dies; the
agent under it has the capabilities of the DaemonSet, with which it returns to the first controller.
Prints a line of JSON for each step.

Usage: daemon_guest.py AGENT OBJECTS UNIT CONFIG TRIAL CAPABILITIES API. CONFIG and TRIAL are the
configurations for the two controllers, CAPABILITIES are separated by commas, and API is the address
of the first controller as the guest sees it.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ends_guest as ends
import systemd_guest as systemd
from agent_guest import PINS, Told, ask, has, reader, until, until_so
from guest_tools import MOUNT, number, policy, tell

FILES = {name: Path("/mnt/scratch") / name for name in ("t-a", "t-b")}
MIB = 1 << 20
FILE_MIB = 24
LIMIT_MIB = 16
CALLS = ("ip link set eth0 up", "ip address add 10.0.2.15/24 dev eth0")


def lower(told: Told) -> None:
    """Pin a limit, and print how `memory.high` follows reclaim down to it."""
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


def second(told: Told, program: str) -> None:
    """Pin a policy for the other tenant that treats tasks of the name `reader-t-b` specially."""
    ask(f"{told.api}/objectives", {"cgroup": "/t-b", "tasks": ["reader-t-b"]})
    told.pin("/t-b", policy="get_scan")
    until("the second policy in the kernel", lambda: policy("t-b") == "get_scan" or None)

    def tasks() -> list[int] | None:
        asked = [program, "policy", "stat", "--cgroup", str(MOUNT / "t-b"), "--json"]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        [row] = json.loads(done.stdout)
        found = set(row["tunables"]["scan_tasks"]) - {0}
        return sorted(found) or None

    tell("second", tasks=until("the named task in the policy", tasks))


def refused(told: Told) -> None:
    """Pin a policy for which no memory is left."""
    told.pin("/t-b", policy="wtinylfu")

    def logged() -> list[str] | None:
        lines = systemd.LOG.read_text(errors="replace").splitlines()
        return [line for line in lines if "than policy_memory_mib" in line] or None

    tell("refused", log=until("a refused change", logged), **has("t-b"))


def restarted(told: Told) -> None:
    """Kill the agent, and print what it adopts after systemd has started it again."""
    restarts = int(systemd.shown("NRestarts")["NRestarts"])
    systemd.systemctl("kill", "--signal=KILL")
    tell("killed", **has("t-a"))
    until(
        "a new start by systemd",
        lambda: int(systemd.shown("NRestarts")["NRestarts"]) > restarts or None,
    )
    before = told.last_seen_s()
    until("a snapshot of the next agent", lambda: told.last_seen_s() > before or None)
    pins = sorted(path.name for path in PINS.iterdir())
    ident = str((MOUNT / "t-a").stat().st_ino)
    tell("again", **has("t-a"), pins=pins, ident=ident, seen=told.tenants())


def stopped() -> None:
    """Stop the agent, and print what is still in force."""
    systemd.systemctl("stop")
    tell("ended", **systemd.shown("Result", "ExecMainStatus"), policy=policy("t-a"))


def elsewhere(program: str, config: str) -> None:
    """Release in a private cgroup namespace, in which the tenants are not found."""
    own = MOUNT / "elsewhere"
    own.mkdir()
    before = has("t-a")
    script = (
        f"echo 0 >{own}/cgroup.procs && exec unshare --cgroup --mount sh -c "
        f"'umount -l {MOUNT} && mount -t cgroup2 none {MOUNT} && "
        f"exec {program} release --json --config {config}'"
    )
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    told = json.loads(done.stdout) if done.stdout else done.stderr
    tell("elsewhere", status=done.returncode, told=told, before=before, after=has("t-a"))


def start_bounded(program: str, config: str, capabilities: str) -> "subprocess.Popen[bytes]":
    """Start the agent with the capabilities of the DaemonSet."""
    allowed = ",".join(f"+{one.lower()}" for one in capabilities.split(","))
    bounded = [
        "setpriv",
        "--bounding-set",
        f"-all,{allowed}",
        "--inh-caps",
        "-all",
        "--no-new-privs",
    ]
    return subprocess.Popen([*bounded, program, "run", "--config", config])


def on_trial(program: str, config: str, capabilities: str) -> None:
    """Run the agent under a controller that dies during a trial, and print what it undoes alone."""
    before = has("t-a")
    agent = start_bounded(program, config, capabilities)
    changed = until("both on trial", lambda: _if_both_differ(before, has("t-a")))
    began = time.monotonic()
    until("both as before", lambda: before if has("t-a") == before else None)
    seconds = time.monotonic() - began
    tell("trial", before=before, changed=changed, back=has("t-a"), seconds=seconds)
    agent.terminate()
    agent.wait()


def in_daemon_set(told: Told, program: str, config: str, capabilities: str) -> None:
    """Run the agent with the capabilities of the DaemonSet under the first controller again."""
    before = has("t-a")
    agent = start_bounded(program, config, capabilities)
    told.next_snapshot()
    until_so("what the controller set", lambda: has("t-a") == before, ends.LONG)
    ends.detach(told, "daemonset")
    ends.remove_tenant(told, "daemonset")
    ends.end_lease(told, "daemonset")
    agent.terminate()
    tell("daemonset ended", status=agent.wait())


def _if_both_differ(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any] | None:
    return now if all(now[key] != before[key] for key in before) else None


def main() -> None:
    program, objects, unit, config, trial, capabilities, api = sys.argv[1:]
    told = Told(api)
    for call in CALLS:
        subprocess.run(call.split(), check=True)
    for cgroup, file in FILES.items():
        file.write_bytes(os.urandom(FILE_MIB * MIB))
        (MOUNT / cgroup).mkdir()
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    systemd.overlay()
    systemd.install(*map(Path, (program, objects, unit, config)))
    manager = systemd.boot()
    readers = [reader(cgroup, file) for cgroup, file in FILES.items()]
    systemd.systemctl("start")
    tell("curves", curves=until("curves of both tenants", told.curves), seen=told.tenants())
    told.pin(policy="lfu")
    until("the pinned policy in the kernel", lambda: policy("t-a") == "lfu" or None)
    tell("policy", files={name: policy(name) for name in FILES})
    second(told, program)
    refused(told)
    lower(told)
    restarted(told)
    ends.detach(told, "unit")
    ends.remove_tenant(told, "unit")
    ends.end_lease(told, "unit")
    ends.shorten_watchdog()
    ends.kill(told)
    ends.stall(told)
    stopped()
    elsewhere(program, config)
    on_trial(program, trial, capabilities)
    in_daemon_set(told, program, config, capabilities)
    for child in (*readers, manager.pid):
        os.kill(child, 9)
        os.waitpid(child, 0)


main()
