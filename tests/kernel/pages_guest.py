# SPDX-License-Identifier: Apache-2.0
"""Guest program: list the pages that one cgroup has in memory, and read them for another cgroup.

Prints a line of JSON for each step: the list of the files that a process of the first cgroup has
read, what the agent reports when it reads that list, and what the second cgroup is then charged
for. Usage: pages_guest.py AGENT.
"""

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from guest_tools import drop_caches, tell

PAGE = 4096
OWNER = Path("/sys/fs/cgroup/pages-a")
BELOW = OWNER / "below"
READER = Path("/sys/fs/cgroup/pages-b")
FOLDER = Path("/mnt/scratch/pages")
READ, MAPPED, REMOVED = FOLDER / "read by calls", FOLDER / "mapped", FOLDER / "removed"
FILE_PAGES = 1024
READ_PAGES = (*range(10, 30), 100, *range(500, 800))
MAPPED_PAGES = (0, *range(64, 96), FILE_PAGES - 1)
WITHIN_SECONDS = 30.0


def accesses(ready: int) -> None:
    """Access pages of one file by read calls, of another by a mapping, and of a removed file."""
    (BELOW / "cgroup.procs").write_text(str(os.getpid()))
    opened = os.open(READ, os.O_RDONLY)
    os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_RANDOM)
    for page in READ_PAGES:
        os.pread(opened, PAGE, page * PAGE)
    fd = os.open(MAPPED, os.O_RDONLY)
    memory = mmap.mmap(fd, FILE_PAGES * PAGE, mmap.MAP_SHARED, mmap.PROT_READ)
    memory.madvise(mmap.MADV_RANDOM)
    os.close(fd)
    for page in MAPPED_PAGES:
        assert memory[page * PAGE] == 1
    # Python keeps a copy of the mapping's descriptor, which would count as an open file.
    for name in os.listdir("/proc/self/fd"):
        if os.path.realpath(f"/proc/self/fd/{name}") == str(MAPPED):
            os.close(int(name))
    removed = os.open(REMOVED, os.O_RDONLY)
    REMOVED.unlink()
    os.pread(removed, PAGE, 0)
    os.write(ready, b"1")
    signal.pause()


def owner() -> int:
    """Start a process that has made its accesses when this returns."""
    waiting, ready = os.pipe()
    child = os.fork()
    if child == 0:
        accesses(ready)
    os.close(ready)
    if not os.read(waiting, 1):
        raise SystemExit("the process of the first cgroup ended early")
    return child


def listed(agent: str, *options: str) -> tuple[list[str], str]:
    """Return the listed lines about this test's files, and the agent's summary of the list."""
    command = [agent, "pages", "list", "--cgroup", str(OWNER), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if str(FOLDER) in line], done.stderr


def read(agent: str, text: str, *options: str) -> str:
    command = [agent, "pages", "read", *options]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def file_bytes() -> int:
    """Return the bytes of page cache that the second cgroup is charged for."""
    lines = (READER / "memory.stat").read_text().splitlines()
    return int(dict(map(str.split, lines))["file"])


def settled(expected: int) -> int:
    """Return `file_bytes` once it reaches `expected`, or after a timeout.

    The kernel adds up the counters of its CPUs with a delay.
    """
    deadline = time.monotonic() + WITHIN_SECONDS
    while (found := file_bytes()) < expected and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def main() -> None:
    agent = sys.argv[1]
    FOLDER.mkdir()
    for file in (READ, MAPPED, REMOVED):
        file.write_bytes(bytes([1]) * FILE_PAGES * PAGE)
    BELOW.mkdir(parents=True)
    READER.mkdir()
    drop_caches()
    child = owner()
    lines, said = listed(agent)
    tell("listed", lines=lines, said=said)
    below = ("--below", str(FOLDER), "--below", "/none")
    tell("below", said=listed(agent, *below)[1])
    half, said = listed(agent, "--most-mib", "1")
    tell("most", lines=half, said=said)
    # Mapped pages stay in memory until their process ends.
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    drop_caches()
    # What stays in memory is not charged to the second cgroup: the agent, the inodes of the files.
    past_end = "".join(f"{FILE_PAGES} 1 {file}\n" for file in (READ, MAPPED))
    tell("past_end", answer=json.loads(read(agent, past_end, "--json")))
    before = file_bytes()
    text = "".join(f"{line}\n" for line in lines)
    answer = read(agent, text, "--json", "--cgroup", str(READER))
    pages = len(READ_PAGES) + len(MAPPED_PAGES)
    grown = settled(before + pages * PAGE) - before
    tell("read", answer=json.loads(answer), charged_pages=grown / PAGE)
    tell("again", lines=held(agent))


def held(agent: str) -> list[str]:
    """Return the list of a process that has both files open and reads nothing."""
    fds = [os.open(file, os.O_RDONLY) for file in (READ, MAPPED)]
    (OWNER / "cgroup.procs").write_text(str(os.getpid()))
    lines, _ = listed(agent)
    for fd in fds:
        os.close(fd)
    return lines


main()
