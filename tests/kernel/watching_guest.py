# SPDX-License-Identifier: Apache-2.0
"""Guest program: cgroups that are watched come and go, recorders die, and a CPU goes offline.

Usage: watching_guest.py AGENT FOLDER SECONDS. Prints a line of JSON: how often each thing was done.
"""

import json
import mmap
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

PAGE = 4096
FILE_PAGES = 2048
LIMIT_BYTES = 2 << 20
ROOT = Path("/sys/fs/cgroup")
FILE = Path("/mnt/scratch/file")
CPU = Path("/sys/devices/system/cpu/cpu1/online")
DONE: Counter[str] = Counter()


def touch_everything(turn: random.Random) -> None:
    """Read, send, fault and write at random, some calls over many pages."""
    fd = os.open(FILE, os.O_RDWR | os.O_NOATIME)
    null = os.open("/dev/null", os.O_WRONLY)
    with mmap.mmap(fd, FILE_PAGES * PAGE, mmap.MAP_SHARED) as memory:
        for _ in range(300):
            page, pages = turn.randrange(FILE_PAGES - 64), turn.choice((1, 1, 3, 64))
            at = page * PAGE
            match turn.randrange(5):
                case 0 | 1:
                    os.pread(fd, pages * PAGE, at)
                case 2:
                    os.sendfile(null, fd, at, pages * PAGE)
                case 3:
                    assert memory[at] is not None
                case _:
                    os.pwrite(fd, bytes(PAGE), at)
    os.close(null)
    os.close(fd)


def in_cgroup(cgroup: Path, turn: random.Random) -> None:
    child = os.fork()
    if child == 0:
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))
        touch_everything(turn)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("a process of the cgroup failed")


def record(agent: str, cgroup: Path, trace: Path, rate: str) -> subprocess.Popen[str]:
    """Start a recorder, and return when it records."""
    found = subprocess.Popen(
        [agent, "record", "--json", "--counting", "kernel", "--rate", rate,
         "--cgroup", str(cgroup), "--out", str(trace)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert found.stderr is not None
    told = found.stderr.readline()
    if not told.startswith("recording"):
        raise SystemExit(told)
    return found


def a_round(agent: str, folder: Path, number: int) -> None:
    """Create, watch and fill a cgroup; chance decides which of cgroup and recorder ends first."""
    turn = random.Random(number)
    cgroup = ROOT / f"watched-{number}"
    cgroup.mkdir()
    (cgroup / "memory.max").write_text(str(LIMIT_BYTES))
    recorder = record(agent, cgroup, folder / "trace.cptrace", turn.choice(("1", "0.0625")))
    in_cgroup(cgroup, turn)
    if turn.random() < 0.3:
        CPU.write_text("0")
        in_cgroup(cgroup, turn)
        CPU.write_text("1")
        DONE["a CPU rested"] += 1
    if turn.random() < 0.5:
        cgroup.rmdir()
        DONE["the cgroup went first"] += 1
    if turn.random() < 0.4:
        recorder.kill()
        DONE["the recorder was killed"] += 1
    else:
        recorder.terminate()
        DONE["the recorder ended"] += 1
    recorder.communicate()
    if cgroup.exists():
        cgroup.rmdir()


def main() -> None:
    agent, folder, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    FILE.write_bytes(bytes(FILE_PAGES * PAGE))
    os.sync()
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        a_round(agent, folder, rounds)
        rounds += 1
    print(json.dumps({"rounds": rounds, **DONE}))


main()
