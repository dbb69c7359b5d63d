# SPDX-License-Identifier: Apache-2.0
"""Guest program: run cgroups with known hits and cold bytes, and report what `cachestat` prints.

Prints a line of JSON for each step. Usage: cachestat_guest.py AGENT CONFIG LINES. CONFIG is the
configuration of an agent that runs beside `cachestat` for a while. LINES is a file of the commands
that the documentation shows.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import pty
import random
import re
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from guest_tools import drop_caches, tell

PAGE, MIB = 4096, 1 << 20
ROOT = Path("/sys/fs/cgroup")
SCRATCH = Path("/mnt/scratch")
METRICS = "http://127.0.0.1:9464/metrics"
# The cgroup `cold` reads one file once, and pages of another file at random without end.
ONCE_MIB, HOT_MIB = 24, 8
# `tight` reads random pages of a file that does not fit; `loop` reads a file in order, again and
# again.
TIGHT_MIB, LOOP_MIB, LIMIT_MIB = 16, 16, 12
REPORTS, COLD_POINTS = 60, 10
BATCH, PAUSE_SECONDS = 50, 0.05
AGENT_READS = 3000
# The agent looks once a second.
OBSERVED_SECONDS = 3.0
BPF_SYSCALL, PROGRAMS, MAPS, LINKS = 321, 11, 12, 31
WITHIN_SECONDS = 60.0
NOBODY = 65534

Told = dict[str, Any]


def reads_at_random(file: Path, first: Path | None = None) -> Callable[[], None]:
    """Return a function that reads `first` once, then pages of `file` at random without end."""

    def body() -> None:
        if first is not None:
            first.read_bytes()
        fd = os.open(file, os.O_RDONLY | os.O_NOATIME)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        pages, order = os.fstat(fd).st_size // PAGE, random.Random(7)
        while True:
            for _ in range(BATCH):
                os.pread(fd, 64, order.randrange(pages) * PAGE)
            time.sleep(PAUSE_SECONDS)

    return body


def reads_in_a_loop(file: Path) -> Callable[[], None]:
    """Return a function that reads all pages of `file` in order, without end."""

    def body() -> None:
        fd = os.open(file, os.O_RDONLY | os.O_NOATIME)
        pages = os.fstat(fd).st_size // PAGE
        while True:
            for begin in range(0, pages, BATCH):
                for page in range(begin, min(begin + BATCH, pages)):
                    os.pread(fd, PAGE, page * PAGE)
                time.sleep(PAUSE_SECONDS)

    return body


def in_cgroup(name: str, body: Callable[[], None]) -> int:
    """Start a process in a cgroup that runs `body` and ends. Return its process id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            (ROOT / name / "cgroup.procs").write_text(str(os.getpid()))
            body()
            status = 0
        finally:
            os._exit(status)
    return child


@contextlib.contextmanager
def running(bodies: dict[str, Callable[[], None]]) -> Iterator[None]:
    children = [in_cgroup(name, body) for name, body in bodies.items()]
    try:
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def file_of(name: str, mib: int) -> Path:
    path = SCRATCH / name
    path.write_bytes(os.urandom(mib * MIB))
    return path


def loaded() -> dict[str, int]:
    """Return the number of BPF objects in the kernel, by kind."""
    libc = ctypes.CDLL(None, use_errno=True)

    def count(command: int) -> int:
        found, attributes = 0, bytearray(struct.pack("III", 0, 0, 0))
        buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
        while libc.syscall(BPF_SYSCALL, command, buffer, len(attributes)) == 0:
            found += 1
            attributes[0:4] = attributes[4:8]
        return found

    return {"programs": count(PROGRAMS), "maps": count(MAPS), "links": count(LINKS)}


def settled(expected: dict[str, int]) -> dict[str, int]:
    """Return what is loaded once it equals `expected`, or after a timeout.

    The kernel frees BPF objects some time after a program ends.
    """
    deadline = time.monotonic() + WITHIN_SECONDS
    while (now := loaded()) != expected and time.monotonic() < deadline:
        time.sleep(0.2)
    return now


def state() -> Told:
    """Return everything a program could leave behind in cgroups and in the BPF file system."""
    limits = {
        str(file): file.read_text().strip()
        for name in ("memory.high", "memory.max", "cgroup.subtree_control")
        for file in sorted(ROOT.rglob(name))
    }
    return {"limits": limits, "pins": sorted(str(path) for path in Path("/sys/fs/bpf").rglob("*"))}


def memory_kib(process: int) -> int:
    """Return the anonymous memory of a process in KiB. File mappings do not count."""
    text = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", text)
    return int(found.group(1)) if found else 0


def measured(command: list[str], seconds: float) -> tuple["subprocess.CompletedProcess[str]", int]:
    """Run a command. Return the result, and the memory it had after `seconds`, in KiB."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=output, stderr=errors)
        time.sleep(seconds)
        used = memory_kib(child.pid)
        child.wait()
        for file in (output, errors):
            file.seek(0)
        done = subprocess.CompletedProcess(command, child.returncode, output.read(), errors.read())
    return done, used


def known(agent: str) -> None:
    """Run `cachestat` on three busy cgroups and an idle one, and print its reports."""
    once, hot = file_of("once", ONCE_MIB), file_of("hot", HOT_MIB)
    tight, loop = file_of("tight", TIGHT_MIB), file_of("loop", LOOP_MIB)
    for name in ("cold", "tight", "loop", "idle"):
        (ROOT / name).mkdir()
    for name in ("tight", "loop"):
        (ROOT / name / "memory.max").write_text(str(LIMIT_MIB * MIB))
    drop_caches()
    before, objects = state(), loaded()
    bodies = {
        "cold": reads_at_random(hot, once),
        "tight": reads_at_random(tight),
        "loop": reads_in_a_loop(loop),
    }
    with running(bodies):
        # `cold` finishes reading its first file before `cachestat` starts.
        time.sleep(10)
        options = f"1 {REPORTS} --json --curve --cold-points {COLD_POINTS} --window 20"
        done, used = measured([agent, "cachestat", *options.split()], REPORTS * 0.9)
        stat = {name: (ROOT / name / "memory.stat").read_text() for name in bodies}
        command = [agent, "cachestat", "15", "2", "--sort", "file", "--cgroup", "[ct]*"]
        table = subprocess.run(command, capture_output=True, text=True, check=False)
        live(agent)
        killed(agent)
        tell("objects", before=objects, after=settled(objects))
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    tell("known", status=done.returncode, errors=done.stderr, reports=reports[-5:], stat=stat)
    seconds = sum(report["interval_s"] for report in reports)
    tell("count", count=len(reports), seconds=seconds, memory_kib=used)
    tell("table", status=table.returncode, text=table.stdout, errors=table.stderr)
    tell("left", same=before == state())


def live(agent: str) -> None:
    """Print what `cachestat` draws on a terminal of six rows until Ctrl-C."""
    Path("/dev/pts").mkdir(exist_ok=True)
    subprocess.run(
        "mountpoint -q /dev/pts || mount -t devpts devpts /dev/pts", shell=True, check=True
    )
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 6, 60, 0, 0))
    watching = subprocess.Popen([agent, "cachestat"], stdout=follower, stderr=follower)
    os.close(follower)
    drawn = b""
    while drawn.count(b"\x1b[J") < 3:
        drawn += os.read(leader, 4096)
    watching.send_signal(signal.SIGINT)
    tell("live", status=watching.wait(), drawn=drawn.decode())
    os.close(leader)


def killed(agent: str) -> None:
    """Kill `cachestat`, so that it cannot clean up, and print what is loaded meanwhile."""
    watching = subprocess.Popen([agent, "cachestat", "--json"], stdout=subprocess.PIPE)
    assert watching.stdout is not None and watching.stdout.readline()
    during = loaded()
    watching.kill()
    watching.wait()
    tell("killed", during=during)


def accesses_told() -> int:
    """Return the accesses of the tenant according to the agent's metrics."""
    with urllib.request.urlopen(METRICS, timeout=10) as answer:
        text = answer.read().decode()
    found = re.search(r'cachepilot_tenant_accesses_total\{[^}]*cgroup="/t-a"[^}]*\} (\d+)', text)
    return int(found.group(1)) if found else 0


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit("an agent did not do what was waited for")
        time.sleep(0.5)


def reads_some(count: int) -> Callable[[], None]:
    def body() -> None:
        fd = os.open(SCRATCH / "hot", os.O_RDONLY | os.O_NOATIME)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        for i in range(count):
            os.pread(fd, 64, i * 7 % (HOT_MIB * 256) * PAGE)
        os.close(fd)

    return body


def answers() -> bool:
    with contextlib.suppress(OSError):
        accesses_told()
        return True
    return False


def beside_an_agent(program: str, config: str) -> None:
    """Run `cachestat` beside an agent.

    Both count the same reads, and the agent goes on after `cachestat` has ended.
    """
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (ROOT / "t-a").mkdir()
    agent = subprocess.Popen([program, "run", "--config", config], stderr=subprocess.DEVNULL)
    until(answers)
    objects, told = loaded(), []
    command = [program, "cachestat", "1", "20", "--json", "--cgroup", "t-*"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        told.append(json.loads(watching.stdout.readline()))
        os.waitpid(in_cgroup("t-a", reads_some(AGENT_READS)), 0)
        told += [json.loads(line) for line in watching.stdout]
    until(lambda: accesses_told() >= AGENT_READS)
    first = accesses_told()
    after = settled(objects)
    os.waitpid(in_cgroup("t-a", reads_some(AGENT_READS)), 0)
    until(lambda: accesses_told() >= first + AGENT_READS)
    time.sleep(OBSERVED_SECONDS)
    cgroups = [cgroup for report in told for cgroup in report["cgroups"]]
    tell(
        "beside",
        seen=sum(cgroup["accesses"] for cgroup in cgroups),
        names=sorted({cgroup["cgroup"] for cgroup in cgroups}),
        agents=[first, accesses_told()],
        objects=[objects, after],
    )
    agent.terminate()
    agent.wait()


def refused(name: str, command: str, user: int = 0) -> None:
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command] if user == 0 else shlex.split(command),
        capture_output=True,
        text=True,
        check=False,
        user=user,
    )
    tell(name, status=done.returncode, errors=done.stderr, output=done.stdout)


def refusals(agent: str) -> None:
    stat = f"{agent} cachestat 1 1"
    refused("no match", f"{stat} --cgroup 'nope-*'")
    refused("no version 2", f"umount -l {ROOT}; {stat}")
    refused("no types", f"mount -t tmpfs none /sys/kernel/btf; {stat}")
    refused("no root", stat, user=NOBODY)


def documented(agent: str, lines: list[str]) -> None:
    """Run the documented commands as typed, and interrupt those that run until Ctrl-C."""
    for name in ("db", "system.slice"):
        (ROOT / name).mkdir()
    (ROOT / "system.slice" / "cgroup.subtree_control").write_text("+memory")
    (ROOT / "system.slice" / "web.service").mkdir()
    prologue = f'cachepilot() {{ "{agent}" "$@"; }}\ncachepilot-agent() {{ "{agent}" "$@"; }}\n'
    for line in lines:
        shell = subprocess.Popen(
            ["/bin/bash", "-c", f'sudo() {{ "$@"; }}\n{prologue}{line}'],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert shell.stdout is not None
        first = shell.stdout.readline()
        if not re.search(r"cachestat.* \d+ \d+\b", line):
            os.killpg(shell.pid, signal.SIGINT)
        output, errors = shell.communicate(timeout=WITHIN_SECONDS)
        tell(f"documented: {line}", status=shell.returncode, output=first + output, errors=errors)


def main() -> None:
    agent, config, lines = sys.argv[1:]
    (ROOT / "cgroup.subtree_control").write_text("+memory")
    known(agent)
    beside_an_agent(agent, config)
    refusals(agent)
    documented(agent, Path(lines).read_text("utf-8").splitlines())


main()
