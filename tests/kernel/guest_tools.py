# SPDX-License-Identifier: Apache-2.0
"""Functions shared by the guest programs."""

import json
import os
from pathlib import Path
from typing import Any

MOUNT = Path("/sys/fs/cgroup")


def tell(step: str, **what: Any) -> None:
    """Print a line of JSON for the test on the host."""
    print(json.dumps({"step": step, **what}), flush=True)


def number(cgroup: str, name: str) -> int | None:
    """Return the number in a file of a cgroup; None for `max`."""
    text = (MOUNT / cgroup / name).read_text().strip()
    return None if text == "max" else int(text)


def policy(cgroup: str) -> str:
    """Return the name of the policy of a cgroup."""
    lines = (MOUNT / cgroup / "memory.cache_ext").read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines)["policy"]


def drop_caches() -> None:
    """Drop the page cache of the guest."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
