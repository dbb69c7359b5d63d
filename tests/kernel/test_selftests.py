# SPDX-License-Identifier: Apache-2.0
"""The kernel selftests of the patch series, built as the kernel builds them."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from cachepilot.vm import Machine, run

SELFTESTS = Path(__file__).resolve().parents[2] / "kernel" / "selftests"
MIB = 1 << 20


def test_the_selftests_of_the_series_pass(
    patched_kernel: Path, trouble: Callable[[str], tuple[str, ...]]
) -> None:
    assert patched_kernel.is_dir()
    built = subprocess.run([str(SELFTESTS)], stdout=subprocess.PIPE, text=True, check=True)
    machine = Machine(
        memory_bytes=1024 * MIB,
        disk_bytes=256 * MIB,
        environment={"PATH": os.environ["PATH"], "TMPDIR": "/mnt/scratch"},
        timeout_seconds=300,
    )
    result = run(machine, [f"{built.stdout.strip()}/cache_ext_test"])
    assert result.returncode == 0, result.output
    # A skipped test also passes; the harness prints how many tests were skipped.
    assert "skip:0" in result.output, result.output
    assert not trouble(result.kernel_log)
