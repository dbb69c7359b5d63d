# SPDX-License-Identifier: Apache-2.0
"""Guest program: attach each policy to some cgroups, and print what the kernel charges for one.

Usage: policy_memory_guest.py AGENT POLICY... Prints a line of JSON for each policy.
"""

import subprocess
import sys
from pathlib import Path

from guest_tools import tell

MOUNT = Path("/sys/fs/cgroup")
TIMES = 3


def kernel_bytes(loader: Path) -> int:
    """Return the kernel memory that is charged to the cgroup of the loading process."""
    lines = (loader / "memory.stat").read_text().splitlines()
    return int(dict(line.split() for line in lines)["kernel"])


def attach(agent: str, loader: Path, policy: str, number: int) -> None:
    cgroup = MOUNT / f"{policy}_{number}"
    cgroup.mkdir()
    command = f"{agent} policy attach --cgroup {cgroup} --policy {policy}"
    joined = f"echo 0 >{loader}/cgroup.procs && exec {command}"
    subprocess.run(["sh", "-c", joined], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    agent, *policies = sys.argv[1:]
    (MOUNT / "cgroup.subtree_control").write_text("+memory")
    for policy in policies:
        loader = MOUNT / f"loader_{policy}"
        loader.mkdir()
        # The first one also pays for what all processes of a cgroup share.
        attach(agent, loader, policy, 0)
        before = kernel_bytes(loader)
        for number in range(1, TIMES + 1):
            attach(agent, loader, policy, number)
        tell(policy, charged_bytes=(kernel_bytes(loader) - before) // TIMES)


main()
