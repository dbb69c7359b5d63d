# SPDX-License-Identifier: Apache-2.0
"""The scratch disk: a sparse file that the host formats, and the server that adds latency."""

import subprocess
import time
from pathlib import Path

from cachepilot.vm import host
from cachepilot.vm.errors import VmError
from cachepilot.vm.machine import Machine

_FORMAT = {
    # Leave nothing for the guest's kernel to initialise in the background.
    "ext4": ["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
}
_SBIN = "/usr/sbin:/sbin"


def make_image(machine: Machine, folder: Path) -> Path:
    """Create a formatted image in `folder` and return its path."""
    image = folder / "scratch.img"
    with image.open("wb") as file:
        file.truncate(machine.disk_bytes)
    if machine.filesystem in _FORMAT:
        _run([*_FORMAT[machine.filesystem], str(image)])
    return image


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": f"/usr/bin:/bin:{_SBIN}", "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise VmError(f"{command[0]} is not installed: run scripts/setup kernel") from None
    if done.returncode != 0:
        raise VmError(f"{command[0]}: {' '.join(done.stderr.split())}")


def start_server(machine: Machine, image: Path, folder: Path) -> subprocess.Popen[bytes] | None:
    """Start the process that serves `image` with latency; return None if no latency is wanted."""
    if machine.latency_us == 0:
        return None
    socket = socket_path(folder)
    server = subprocess.Popen(
        [
            *["setpriv", "--pdeathsig", "KILL", str(host.slow_disk())],
            *[str(socket), str(image), str(machine.latency_us)],
        ],
        stdin=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 10
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            raise VmError("the server of the slow disk did not start")
        time.sleep(0.01)
    return server


def socket_path(folder: Path) -> Path:
    """Return the socket on which the server of a slow disk listens."""
    return folder / "disk.sock"
