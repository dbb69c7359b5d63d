# SPDX-License-Identifier: Apache-2.0
"""Guest program, on a kernel without cache_ext: what the agent sees and does there.

Prints a line of JSON for each step: what the doctor finds, the named accesses of sampler_guest.py,
the steps of pages_guest.py, and the exit of an agent that a controller on the host steered
meanwhile. Usage: stock_guest.py AGENT CONFIG FOLDER STEP... Traces go to FOLDER.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from guest_tools import tell

CGROUP = Path("/sys/fs/cgroup/t-a")
FILE = Path("/mnt/scratch/t-a")
QUIET = Path("/sys/fs/cgroup/t-quiet")
QUIET_FILE = Path("/mnt/scratch/t-quiet")
QUIET_PAGES = 64
MIB = 1 << 20
FILE_MIB = 24
RAISED = str(40 * MIB)
WITHIN_SECONDS = 300.0
STOPPED_SECONDS = 3.0
CALLS = ("ip link set eth0 up", "ip address add 10.0.2.15/24 dev eth0")


def examine(agent: str) -> None:
    """Print the doctor's report on this host."""
    command = [agent, "doctor", "--dir", "/mnt/scratch", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    checks = {check["name"]: check for check in report["checks"]}
    tell("doctor", status=done.returncode, healthy=report["healthy"], checks=checks)


def reader(cgroup: Path, file: Path, bytes_per_read: int, every_read: bool) -> int:
    """Start a process of a tenant that reads its file over and over, with a pause.

    It pauses after every read if `every_read`, else after every round.
    """
    child = os.fork()
    if child == 0:
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))
        fd = os.open(file, os.O_RDONLY)
        while True:
            ended = not os.read(fd, bytes_per_read)
            if ended:
                os.lseek(fd, 0, os.SEEK_SET)
            if ended or every_read:
                time.sleep(0.02)
    return child


def high() -> str:
    return (CGROUP / "memory.high").read_text().strip()


def overrun(agent: "subprocess.Popen[bytes]") -> None:
    """Stop the agent now and then, from the rise of the limit to its removal.

    Meanwhile the agent's ring buffer overruns.
    """
    deadline = time.monotonic() + WITHIN_SECONDS
    risen = False
    while time.monotonic() < deadline:
        now = high()
        if risen and now == "max":
            # The agent must still report its last action to the controller.
            time.sleep(STOPPED_SECONDS)
            return
        if now == RAISED:
            risen = True
            agent.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED_SECONDS)
            agent.send_signal(signal.SIGCONT)
        time.sleep(STOPPED_SECONDS)
    raise SystemExit(f"the controller's plans did not come to their end: memory.high is {high()}")


def steered(program: str, config: str) -> None:
    for call in CALLS:
        subprocess.run(call.split(), check=True)
    FILE.write_bytes(os.urandom(FILE_MIB * MIB))
    QUIET_FILE.write_bytes(os.urandom(QUIET_PAGES * 4096))
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    CGROUP.mkdir()
    QUIET.mkdir()
    children = [reader(CGROUP, FILE, 1 << 14, False), reader(QUIET, QUIET_FILE, 4096, True)]
    agent = subprocess.Popen([program, "run", "--config", config])
    try:
        overrun(agent)
    finally:
        agent.terminate()
        status = agent.wait()
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    tell("ended", status=status, high=high(), max=(CGROUP / "memory.max").read_text().strip())


def main() -> None:
    program, config, folder, *steps = sys.argv[1:]
    examine(program)
    sampler = [sys.executable, str(Path(__file__).with_name("sampler_guest.py"))]
    subprocess.run([*sampler, program, folder, "programs", *steps], check=True)
    pages = Path(__file__).with_name("pages_guest.py")
    subprocess.run([sys.executable, str(pages), program], check=True)
    steered(program, config)


main()
