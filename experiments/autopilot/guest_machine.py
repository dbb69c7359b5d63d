# SPDX-License-Identifier: Apache-2.0
"""Boot the patched kernel with a network and a throttled disk, and run a script in the guest.

    python -m experiments.autopilot.guest_machine FOLDER    FOLDER/guest.json has the settings

The script is guest_tenants.sh unless the settings name another one. The machine has a process of
its own, so that a caller can start and stop it like any other child process. The guest can write to
FOLDER and to the further `folders` of the settings. Exit status: that of the script, or 125 if the
machine failed.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from cachepilot.errors import InputError
from cachepilot.vm import Machine, VmError, run

SCRIPT = Path(__file__).resolve().parent / "guest_tenants.sh"
HOST_ADDRESS = "10.0.2.2"
"""Address of the host's loopback interface in the guest, on QEMU's user network."""
NETWORK = ("-netdev", "user,id=net0", "-device", "virtio-net-pci,netdev=net0")
EXIT_VM_FAILED = 125
MIB = 1 << 20


def machine(
    folders: Sequence[Path], iops: int | None, timeout_seconds: float, latency_us: int = 0
) -> Machine:
    """Return a machine with two CPUs, 1 GiB and a throttled disk.

    The disk serves `iops` requests per second, each in `latency_us`.
    """
    return Machine(
        memory_bytes=1024 * MIB,
        disk_bytes=2048 * MIB,
        iops=iops,
        latency_us=latency_us,
        qemu=NETWORK,
        shares=tuple(folders),
        timeout_seconds=timeout_seconds,
    )


def _show(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _stop(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run the command line."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    orders = json.loads((folder / "guest.json").read_text("utf-8"))
    os.environ.update(orders["environment"])
    signal.signal(signal.SIGTERM, _stop)
    try:
        script = orders.get("script", str(SCRIPT))
        seconds, latency_us = orders["timeout_seconds"], orders.get("latency_us", 0)
        folders = [folder, *map(Path, orders.get("folders", ()))]
        guest = machine(folders, orders["iops"], seconds, latency_us)
        done = run(guest, ["bash", script], on_output=_show, on_errors=_show)
    except KeyboardInterrupt:
        return 130
    except (VmError, InputError) as error:
        print(f"{getattr(error, 'console', '')}\n{error}", file=sys.stderr)
        return EXIT_VM_FAILED
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
