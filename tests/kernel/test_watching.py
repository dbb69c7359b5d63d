# SPDX-License-Identifier: Apache-2.0
"""The kernel's own counting under its debug checks: KASAN, lockdep and others."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cachepilot import agent
from cachepilot.vm import Machine, run

HERE = Path(__file__).parent
MIB = 1 << 20


@pytest.mark.long
@pytest.mark.usefixtures("debug_kernel")
@pytest.mark.parametrize(
    "script",
    [
        ("watching_guest.py", "{agent}", "{folder}", "{seconds}"),
        ("sampler_guest.py", "{agent}", "{folder}", "kernel"),
    ],
    ids=lambda script: str(script[0]),
)
def test_the_debug_kernel_counts_without_a_splat(
    script: tuple[str, ...],
    tmp_path: Path,
    trouble: Callable[[str], tuple[str, ...]],
    seconds: Callable[[int], int],
) -> None:
    values = {"agent": agent.find(os.environ), "folder": tmp_path, "seconds": seconds(180)}
    name, *arguments = (part.format(**values) for part in script)
    machine = Machine(
        kernel="debug",
        cpus=2,
        memory_bytes=1024 * MIB,
        disk_bytes=256 * MIB,
        shares=(tmp_path,),
        timeout_seconds=600 + 8 * seconds(180),
        environment=dict(os.environ),
    )
    result = run(machine, ["/usr/bin/python3", str(HERE / name), *arguments])
    assert result.returncode == 0, result.errors
    told = [json.loads(line) for line in result.output.splitlines()]
    assert told and not trouble(result.kernel_log)
    print(told[0] if len(told) == 1 else f"{len(told)} steps")
