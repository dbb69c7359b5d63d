# SPDX-License-Identifier: Apache-2.0
"""Guest program: a real node whose tenants come, read, change settings and go; or that is killed.

Prints a line of JSON for each step. Usage: node_guest.py NODE FOLDER steer, or node_guest.py NODE
FOLDER kill ROUNDS. FOLDER is for the node's state.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from guest_tools import MOUNT, number, policy, tell
from node_process import Node

PINS = Path("/sys/fs/bpf/cachepilot")
AGENT = os.environ["CACHEPILOT_AGENT"]
FILES = {name: Path("/mnt/scratch") / name for name in ("t-a", "t-b")}
MIB = 1 << 20
FILE_MIB = 48
FLOOR = 2 * MIB


def read_in(cgroup: str) -> None:
    """Read the whole file of a cgroup in a process of its own."""
    child = os.fork()
    if child == 0:
        (MOUNT / cgroup / "cgroup.procs").write_text(str(os.getpid()))
        fd = os.open(FILES[cgroup], os.O_RDONLY)
        while os.read(fd, 1 << 16):
            pass
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def read_on(cgroup: str) -> int:
    """Start a process that reads the file of a cgroup over and over."""
    child = os.fork()
    if child == 0:
        (MOUNT / cgroup / "cgroup.procs").write_text(str(os.getpid()))
        fd = os.open(FILES[cgroup], os.O_RDONLY)
        while True:
            if not os.read(fd, 1 << 16):
                os.lseek(fd, 0, os.SEEK_SET)
    return child


def cost(node: Node) -> None:
    """Let both tenants read until the node knows the CPU time of /t-a's policy, and print it."""
    readers = [read_on(cgroup) for cgroup in FILES]
    deadline = time.monotonic() + 60
    seen = node.ask("observe")
    while time.monotonic() < deadline:
        if seen["tenants"]["/t-a"]["policy_cpu_us_per_access"] is not None:
            break
        node.ask("tick 500")
        seen = node.ask("observe")
    for child in readers:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    tell("cost", seen=seen)


def reads_ahead(node: Node) -> None:
    """Attach a readahead policy to /t-a, let it serve a sequential reader, and detach it."""

    def command(name: str, *options: str) -> None:
        of = ("--kind", "readahead", "--cgroup", str(MOUNT / "t-a"))
        subprocess.run([AGENT, "policy", name, *of, *options], check=True, stdout=sys.stderr)

    before = node.ask("observe")
    command("attach", "--policy", "linux")
    read_in("t-a")
    during = node.ask("observe")
    lines = (MOUNT / "t-a" / "memory.cache_ext").read_text().splitlines()
    kernel = dict(line.split(" ", 1) for line in lines)
    counts = [int(kernel[f"prefetch_{name}_pages"]) for name in ("ahead", "used", "wasted")]
    command("detach")
    tell("ahead", before=before, during=during, counts=counts, after=node.ask("observe"))


def lower(node: Node) -> None:
    """Lower a limit, and print every step until it is reached."""
    tell("lower", asked=node.ask(f"apply /t-a - {24 * MIB}"), seen=node.ask("observe"))
    deadline = time.monotonic() + 60
    steps = []
    while time.monotonic() < deadline:
        node.ask("tick 50")
        steps.append((number("t-a", "memory.high"), number("t-a", "memory.current")))
        if steps[-1][0] == 24 * MIB:
            break
    tell("lowered", steps=steps, seen=node.ask("observe"), max=number("t-a", "memory.max"))
    asked = node.ask(f"apply /t-a - {40 * MIB}")
    tell("raised", asked=asked, high=number("t-a", "memory.high"))
    tell("low", asked=node.ask(f"apply /t-a - {MIB}"), high=number("t-a", "memory.high"))


def steer(program: str, state: Path) -> None:
    (MOUNT / "t-a").mkdir()
    (MOUNT / "other").mkdir()
    with Node(program, state, "t-*", "sampled") as node:
        tell("hello", **node.hello, seen=node.ask("observe"))
        (MOUNT / "t-b").mkdir()
        read_in("t-b")
        tell("came", seen=node.ask("observe"))
        for _ in range(2):
            read_in("t-a")
            read_in("t-b")
        node.ask("tick 100")
        tell("read", seen=node.ask("observe"))
        lower(node)
        for name in ("lfu", "mru"):
            asked = node.ask(f"apply /t-a {name} -")
            read_in("t-a")
            tell("policy", wanted=name, asked=asked, policy=policy("t-a"))
        cost(node)
        reads_ahead(node)
        for step in ("asserted", "yielded"):
            (MOUNT / "t-a" / "memory.high").write_text(str(30 * MIB))
            seen = node.ask("observe")
            tell(step, seen=seen, high=number("t-a", "memory.high"), after=node.ask("observe"))
        (MOUNT / "t-b").rmdir()
        tell("went", seen=node.ask("observe"), asked=node.ask("apply /t-b lfu -"))
    with Node(program, state, "t-*", "sampled") as node:
        tell("again", **node.hello, seen=node.ask("observe"), policy=policy("t-a"))
        # An order for a limit ends the yielding: the agent sets this limit again.
        node.ask(f"apply /t-a - {36 * MIB}")
        asked = node.ask("release")
        high, seen = number("t-a", "memory.high"), node.ask("observe")
        tell("released", asked=asked, policy=policy("t-a"), high=high, seen=seen)


def broken(state: Path) -> list[str]:
    """Return the invariants that are broken. They must hold whenever the node is killed."""
    found = []
    ledger = state / "ledger.json"
    entries = json.loads(ledger.read_text())["entries"] if ledger.exists() else {}
    for cgroup in ("t-a", "t-b"):
        ident = str((MOUNT / cgroup).stat().st_ino)
        high, decides = number(cgroup, "memory.high"), policy(cgroup)
        if high is not None and high < FLOOR:
            found.append(f"{cgroup}: {high} is below the floor")
        if (high is not None or decides != "none") and ident not in entries:
            found.append(f"{cgroup}: {high} {decides}, but nobody knows what it had")
        if decides != "none" and not (PINS / ident / "link").exists():
            found.append(f"{cgroup}: {decides} is nobody's")
    return found


def kill(program: str, state: Path, rounds: int) -> None:
    order = random.Random(11)
    for cgroup in ("t-a", "t-b"):
        (MOUNT / cgroup).mkdir()
        read_in(cgroup)
    adopted = 0
    for number_of_round in range(rounds):
        with Node(program, state, "t-*", "blind") as node:
            changed = [c for c in ("t-a", "t-b") if number(c, "memory.high") or policy(c) != "none"]
            if node.hello["adopted"] != [f"/{c}" for c in changed]:
                raise SystemExit(f"adopted {node.hello['adopted']}, but changed is {changed}")
            adopted += len(changed)
            node.ask("churn /t-a /t-b")
            time.sleep(order.uniform(0, 2))
        found = broken(state)
        if found:
            raise SystemExit(f"round {number_of_round}: {found}")
        if number_of_round % 10 == 9:
            (MOUNT / "t-b").rmdir()
            (MOUNT / "t-b").mkdir()
    with Node(program, state, "t-*", "blind") as node:
        node.ask("release")
        pins = [path.name for path in PINS.iterdir()] if PINS.exists() else []
    left = {c: (number(c, "memory.high"), policy(c)) for c in ("t-a", "t-b")}
    entries = json.loads((state / "ledger.json").read_text())["entries"]
    tell("killed", rounds=rounds, adopted=adopted, left=left, pins=pins, entries=entries)


def main() -> None:
    program, state, what, *rest = sys.argv[1:]
    for file in FILES.values():
        file.write_bytes(bytes(FILE_MIB * MIB))
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    if what == "steer":
        steer(program, Path(state))
    else:
        kill(program, Path(state), int(rest[0]))


main()
