# SPDX-License-Identifier: Apache-2.0
"""Requirements on the host: cache folder, kernel, QEMU, memory, the programs of kernel/vm."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from cachepilot.vm.errors import VmError
from cachepilot.vm.machine import MIB

QEMU = "qemu-system-x86_64"
EMULATOR_BYTES = 256 * MIB
"""Memory of QEMU besides the guest's, with room for translated code."""

_KERNEL_FOLDER = Path(__file__).resolve().parents[3] / "kernel"
_NOT_BUILT = 3
_GUEST_SOURCES = ("guest_init.c", "guest_mounts.c", "guest_run.c", "guest.h")


def cache_folder() -> Path:
    """Return the folder for built kernels and programs."""
    given = os.environ.get("CACHEPILOT_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "cachepilot"


def kernel_image(variant: str) -> Path:
    """Return the bzImage of a kernel variant; raise VmError if it is not built."""
    script = _KERNEL_FOLDER / "build"
    if not script.exists():
        raise VmError(f"{script}: missing; virtual machines need cachepilot's source tree")
    found = subprocess.run(
        [str(script), "--find", variant], capture_output=True, text=True, check=False
    )
    if found.returncode == _NOT_BUILT:
        targets = {"patched": "make kernel", "debian": "make kernel", "debug": "make kernel-debug"}
        target = targets.get(variant)
        advice = target or f"scripts/setup kernel, then kernel/build {variant}"
        raise VmError(f"the {variant} kernel is not built: run {advice}")
    if found.returncode != 0:
        raise VmError(found.stderr.strip() or f"{script}: status {found.returncode}")
    return Path(found.stdout.strip()) / "bzImage"


def initial_ram_disk(kernel: Path) -> Path | None:
    """Return the initial RAM disk of a kernel with drivers in modules; None if it has none."""
    initrd = kernel.with_name("initrd")
    return initrd if initrd.exists() else None


def qemu() -> str:
    """Return the path of QEMU; raise VmError if it is not installed."""
    path = shutil.which(QEMU)
    if path is None:
        raise VmError(f"{QEMU} is not installed: run scripts/setup kernel")
    return path


def check_memory(wanted_bytes: int) -> None:
    """Raise VmError if the host lacks the memory for a guest."""
    available = available_bytes(Path("/proc/meminfo").read_text("ascii"))
    if wanted_bytes + EMULATOR_BYTES > available:
        raise VmError(
            f"--memory {wanted_bytes // MIB}M: needs {(wanted_bytes + EMULATOR_BYTES) // MIB}M of "
            f"the host's memory, of which {available // MIB}M are available"
        )


def available_bytes(meminfo: str) -> int:
    """Return MemAvailable in bytes from the text of /proc/meminfo."""
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise VmError("/proc/meminfo: has no MemAvailable")


def guest_init() -> Path:
    """Return the guest's first process; build it unless the cache has it."""
    return _program("guest_init", _GUEST_SOURCES, ["-static"])


def slow_disk() -> Path:
    """Return the server of disks with latency; build it unless the cache has it."""
    return _program("slow_disk", ("slow_disk.c",), ["-pthread"])


def _program(name: str, sources: tuple[str, ...], flags: list[str]) -> Path:
    paths = [_KERNEL_FOLDER / "vm" / source for source in sources]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]
    target = cache_folder() / "vm" / f"{name}-{digest}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as folder:
        partial = Path(folder) / name
        compiled = [str(path) for path in paths if path.suffix == ".c"]
        options = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", *flags]
        built = subprocess.run(
            ["cc", *options, "-o", str(partial), *compiled],
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode != 0:
            raise VmError(f"{paths[0]}: does not compile: {' '.join(built.stderr.split())[:300]}")
        os.replace(partial, target)
    return target
