# SPDX-License-Identifier: Apache-2.0
"""What the host must have: the cache, a kernel, QEMU, memory, the small programs of kernel/vm."""

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
"""What QEMU takes beside the guest's memory, with room for its translated code."""

_KERNEL_FOLDER = Path(__file__).resolve().parents[3] / "kernel"
_NOT_BUILT = 3
_GUEST_SOURCES = ("guest_init.c", "guest_mounts.c", "guest_run.c", "guest.h")


def cache_folder() -> Path:
    """Where kernels and programs that were built are kept."""
    given = os.environ.get("CACHEPILOT_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "cachepilot"


def kernel_image(variant: str) -> Path:
    """The bzImage of a variant; raises VmError when it is not built."""
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
    """The RAM disk beside a kernel's image that has its drivers in modules; None without one."""
    initrd = kernel.with_name("initrd")
    return initrd if initrd.exists() else None


def qemu() -> str:
    """The path of QEMU; raises VmError when it is not installed."""
    path = shutil.which(QEMU)
    if path is None:
        raise VmError(f"{QEMU} is not installed: run scripts/setup kernel")
    return path


def check_memory(wanted_bytes: int) -> None:
    """Raises VmError when the host lacks the memory that a guest wants."""
    available = available_bytes(Path("/proc/meminfo").read_text("ascii"))
    if wanted_bytes + EMULATOR_BYTES > available:
        raise VmError(
            f"--memory {wanted_bytes // MIB}M: needs {(wanted_bytes + EMULATOR_BYTES) // MIB}M of "
            f"the host's memory, of which {available // MIB}M are available"
        )


def available_bytes(meminfo: str) -> int:
    """MemAvailable of the text of /proc/meminfo."""
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise VmError("/proc/meminfo: has no MemAvailable")


def guest_init() -> Path:
    """The guest's first process, built unless the cache has it."""
    return _program("guest_init", _GUEST_SOURCES, ["-static"])


def slow_disk() -> Path:
    """The server of disks with latency, built unless the cache has it."""
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
