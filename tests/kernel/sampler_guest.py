# SPDX-License-Identifier: Apache-2.0
"""Guest program: make known accesses to files while the agent counts and records them.

Prints a line of JSON for each step: its name, what the agent reported, and the kernel's own
counters of the cgroup. Usage: sampler_guest.py AGENT FOLDER COUNTING [STEP...]. Traces go to
FOLDER, COUNTING is that of `record`, and if steps are named only these run.
"""

import ctypes
import json
import mmap
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from guest_tools import drop_caches

PAGE = 4096
REFAULTS = "workingset_refault_file"
CGROUP = Path("/sys/fs/cgroup/sampled")
OTHER = Path("/sys/fs/cgroup/other")
FILE = Path("/mnt/scratch/file")
FILE_PAGES = 4096
RANDOM_PAGES = 1000
MAPPED_PAGES = 512
WRITTEN_PAGES = 300
SHARED_PAGES = 100
# More than the 65,536 pages that the programs look at in one call.
HUGE_PAGES = 80 << 10
HUGE_READS = 4
BUFFER_PAGES = 128

Step = Callable[[], None]


def open_file() -> int:
    """Open the file so that reading it changes nothing on the disk."""
    return os.open(FILE, os.O_RDWR | os.O_NOATIME)


def join(cgroup: Path) -> None:
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))


def random_reads() -> None:
    """Read some pages twice, in two random orders, without readahead."""
    fd = open_file()
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    order = random.Random(7)
    # Only every second page, so that no page is read right after its predecessor.
    pages = list(range(0, 2 * RANDOM_PAGES, 2))
    for _ in range(2):
        order.shuffle(pages)
        for page in pages:
            os.pread(fd, PAGE, page * PAGE)
    os.close(fd)


def sequential_reads() -> None:
    """Read the whole file page by page, so that readahead works."""
    fd = open_file()
    for page in range(FILE_PAGES):
        os.pread(fd, PAGE, page * PAGE)
    os.close(fd)


def large_reads() -> None:
    """Read the whole file in calls of 64 pages; a last call extends beyond the end of the file."""
    fd = open_file()
    for page in range(0, FILE_PAGES, 64):
        os.pread(fd, 64 * PAGE, page * PAGE)
    os.pread(fd, 64 * PAGE, (FILE_PAGES - 3) * PAGE)
    os.close(fd)


def one_read() -> None:
    """Read the whole file in one call."""
    fd = open_file()
    assert len(os.pread(fd, FILE_PAGES * PAGE, 0)) == FILE_PAGES * PAGE
    os.close(fd)


def huge_reads() -> None:
    """Read a file without blocks on the disk a few times, in one call each time."""
    path = FILE.with_name("huge")
    path.touch()
    os.truncate(path, HUGE_PAGES * PAGE)
    fd = os.open(path, os.O_RDONLY | os.O_NOATIME)
    # All parts of a call go to the same buffer.
    parts = [bytearray(BUFFER_PAGES * PAGE)] * (HUGE_PAGES // BUFFER_PAGES)
    for _ in range(HUGE_READS):
        assert os.preadv(fd, parts, 0) == HUGE_PAGES * PAGE
    os.close(fd)


def read_elsewhere() -> None:
    """Read pages of which half were read by, and are charged to, another cgroup."""
    fd = open_file()
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    home = Path("/proc/self/cgroup").read_text().strip().removeprefix("0::")
    join(OTHER)
    for page in range(SHARED_PAGES):
        os.pread(fd, PAGE, 4 * page * PAGE)
    join(Path(f"/sys/fs/cgroup{home}"))
    for page in range(2 * SHARED_PAGES):
        os.pread(fd, PAGE, 2 * page * PAGE)
    os.close(fd)


def removes() -> None:
    """Write and remove one file; write another and truncate it to half."""
    for name, left in (("removed", 0), ("cut", WRITTEN_PAGES // 2)):
        path = FILE.with_name(name)
        path.write_bytes(bytes(WRITTEN_PAGES * PAGE))
        os.truncate(path, left * PAGE)
        if not left:
            path.unlink()


def mapped_reads() -> None:
    """Read some pages through a mapping, without readahead."""
    fd = open_file()
    with mmap.mmap(fd, FILE_PAGES * PAGE, mmap.MAP_SHARED, mmap.PROT_READ) as memory:
        memory.madvise(mmap.MADV_RANDOM)
        for page in range(MAPPED_PAGES):
            assert memory[page * 2 * PAGE] == 0
    os.close(fd)


def writes() -> None:
    """Write whole pages that are not cached."""
    fd = open_file()
    data = bytes(PAGE)
    for page in range(WRITTEN_PAGES):
        os.pwrite(fd, data, page * 2 * PAGE)
    os.close(fd)


def sends() -> None:
    """Send the first pages by sendfile()."""
    fd = open_file()
    null = os.open("/dev/null", os.O_WRONLY)
    assert os.sendfile(null, fd, 0, 16 * PAGE) == 16 * PAGE
    os.close(null)
    os.close(fd)


def reclaims() -> None:
    """Read the file, evict it by reclaim, and read it again."""
    sequential_reads()
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(CGROUP / "memory.reclaim", os.O_WRONLY)
    libc.write(fd, b"8M", 2)
    os.close(fd)
    sequential_reads()


def forgets() -> None:
    """Read the file and drop it by fadvise, which is no eviction."""
    sequential_reads()
    fd = open_file()
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def shared() -> None:
    """Write, read and map shared memory, which is not page cache.

    One page of the file is read too, because a recording without any access is refused.
    """
    fd = os.memfd_create("shared")
    os.pwrite(fd, bytes(MAPPED_PAGES * PAGE), 0)
    os.pread(fd, MAPPED_PAGES * PAGE, 0)
    with mmap.mmap(fd, MAPPED_PAGES * PAGE, mmap.MAP_SHARED, mmap.PROT_READ) as memory:
        for page in range(MAPPED_PAGES):
            assert memory[page * PAGE] == 0
    os.close(fd)
    fd = open_file()
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    os.pread(fd, PAGE, 0)
    os.close(fd)


STEPS: dict[str, Step] = {
    "random": random_reads,
    "sequential": sequential_reads,
    "large": large_reads,
    "whole": one_read,
    "elsewhere": read_elsewhere,
    "removes": removes,
    "mapped": mapped_reads,
    "writes": writes,
    "sends": sends,
    "reclaims": reclaims,
    "forgets": forgets,
    "shared": shared,
}


def memory_stat() -> dict[str, int]:
    lines = (CGROUP / "memory.stat").read_text().splitlines()
    return {key: int(value) for key, value in map(str.split, lines)}


def in_cgroup(step: Step) -> None:
    """Run a step in a process of the cgroup. It runs once before, so that its code is in memory."""
    child = os.fork()
    if child == 0:
        step()
        drop_caches()
        join(CGROUP)
        step()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("a step failed")


def recorded(agent: str, trace: Path, step: Step, *options: str) -> dict[str, Any]:
    """Record a step, and return what the agent reports."""
    # Pages left by the step before must not be dropped during this recording.
    drop_caches()
    command = [agent, "record", "--json", "--cgroup", str(CGROUP), "--out", str(trace), *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as recorder:
        assert recorder.stdout is not None and recorder.stderr is not None
        told = recorder.stderr.readline()
        if not told.startswith("recording"):
            raise SystemExit(told)
        before = memory_stat()
        in_cgroup(step)
        after = memory_stat()
        recorder.terminate()
        output = recorder.stdout.read()
        if recorder.wait():
            raise SystemExit(recorder.stderr.read())
    answer: dict[str, Any] = json.loads(output)
    answer["stat"] = {key: after[key] - before[key] for key in ("pgsteal", REFAULTS, "pgmajfault")}
    return answer


def main() -> None:
    agent, folder, named = sys.argv[1], Path(sys.argv[2]), sys.argv[4:]
    counting = ("--counting", sys.argv[3])
    CGROUP.mkdir()
    OTHER.mkdir()
    FILE.write_bytes(bytes(FILE_PAGES * PAGE))
    os.sync()
    for name, step in STEPS.items():
        if named and name not in named:
            continue
        answer = recorded(agent, folder / f"{name}.cptrace", step, *counting)
        print(json.dumps({"step": name, **answer}), flush=True)
    if named:
        return
    rate = (*counting, "--rate", "0.0625")
    answer = recorded(agent, folder / "sampled.cptrace", random_reads, *rate)
    print(json.dumps({"step": "sampled", **answer}), flush=True)
    answer = recorded(agent, folder / "huge.cptrace", huge_reads, *rate)
    print(json.dumps({"step": "huge", **answer}), flush=True)
    answer = recorded(agent, folder / "packed.cptrace.zst", sequential_reads, *counting)
    print(json.dumps({"step": "packed", **answer}), flush=True)


main()
