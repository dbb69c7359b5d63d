# SPDX-License-Identifier: Apache-2.0
"""Guest program: attach each policy to some cgroups, and print what the kernel charges for one.

Half of the cgroups have a limit, so that a state that follows the size of its cgroup is small.

Usage: policy_memory_guest.py AGENT POLICY... Prints a line of JSON for each policy.
"""

import subprocess
import sys
from pathlib import Path

from guest_tools import tell

MOUNT = Path("/sys/fs/cgroup")
TIMES = 2
LIMIT = str(64 << 20)


def kernel_bytes(loader: Path) -> int:
    """Return the kernel memory that is charged to the cgroup of the loading process."""
    lines = (loader / "memory.stat").read_text().splitlines()
    return int(dict(line.split() for line in lines)["kernel"])


def attach(agent: str, loader: Path, policy: str, cgroup: Path, limit: str) -> None:
    cgroup.mkdir()
    (cgroup / "memory.max").write_text(limit)
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
        attach(agent, loader, policy, MOUNT / f"{policy}_first", "max")
        charged = []
        for limit in ("max", LIMIT):
            before = kernel_bytes(loader)
            for number in range(TIMES):
                attach(agent, loader, policy, MOUNT / f"{policy}_{limit}_{number}", limit)
            charged.append((kernel_bytes(loader) - before) // TIMES)
        tell(policy, charged_bytes=charged[0], limited_bytes=charged[1])


main()
