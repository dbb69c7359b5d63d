# SPDX-License-Identifier: Apache-2.0
"""What every test in a virtual machine needs: QEMU, and a kernel that is built."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cachepilot.vm import host

BUILD = Path(__file__).resolve().parents[2] / "kernel" / "build"


@pytest.fixture(scope="session")
def patched_kernel() -> Path:
    """The folder of the patched kernel, built when the cache lacks it."""
    if shutil.which(host.QEMU) is None:
        pytest.skip(f"{host.QEMU} is not installed, and scripts/setup kernel could not install it")
    built = subprocess.run([str(BUILD), "patched"], stdout=subprocess.PIPE, text=True, check=True)
    return Path(built.stdout.strip())
