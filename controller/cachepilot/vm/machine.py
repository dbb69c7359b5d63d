# SPDX-License-Identifier: Apache-2.0
"""The description of a virtual machine, and the result of a command in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cachepilot.errors import InputError

MIB = 1 << 20
SUITES = ("debian", "debian-trixie", "debian-trixie-backports")
"""Debian's own kernels, of the release that runs here and of later ones."""
VARIANTS = ("patched", "stock", "counted", "counted-stock", "debug", "scaling", *SUITES)
FILESYSTEMS = ("ext4", "xfs", "none")
MAX_CPUS = 16
"""CONFIG_NR_CPUS of kernel/config/vm.config."""
ICOUNT_SHIFT = 0
"""With `icount`, an instruction takes two to the power of this many nanoseconds of guest time."""

_LEAST_DISK_BYTES = {"ext4": 16 * MIB, "xfs": 300 * MIB, "none": MIB}


@dataclass(frozen=True)
class Machine:
    """A virtual machine; the defaults are those of `cachepilot vm run`.

    kernel: one of VARIANTS, built beforehand with `kernel/build`. Variants with static branches
        (counted, and Debian's) need a single CPU if CPUs are emulated.
    cpus: virtual CPUs, 1 to 16.
    memory_bytes: memory of the guest.
    disk_bytes: size of the empty scratch disk, /dev/vda in the guest.
    filesystem: ext4 or xfs, mounted at /mnt/scratch; or none.
    iops: most requests per second that the disk serves; None: no limit.
    latency_us: time that the disk adds to each request.
    append: further words for the kernel's command line.
    qemu: further words for QEMU's command line.
    icount: one CPU whose clock counts instructions, see kernel/README.md.
    shares: host folders that the guest may write, under the same path.
    environment: variables of the command; None: those of this process.
    cwd: folder of the command; None: that of this process.
    timeout_seconds: limit for boot and command together.
    """

    kernel: str = "patched"
    cpus: int = 2
    memory_bytes: int = 2048 * MIB
    disk_bytes: int = 2048 * MIB
    filesystem: str = "ext4"
    iops: int | None = None
    latency_us: int = 0
    append: str = ""
    qemu: tuple[str, ...] = ()
    icount: bool = False
    shares: tuple[Path, ...] = ()
    environment: Mapping[str, str] | None = None
    cwd: Path | None = None
    timeout_seconds: float = 600.0

    def __post_init__(self) -> None:
        _one_of("--kernel", self.kernel, VARIANTS)
        _one_of("--filesystem", self.filesystem, FILESYSTEMS)
        if self.kernel in SUITES and self.filesystem == "xfs":
            raise InputError(f"--filesystem xfs: the {self.kernel} kernel is given ext4 alone")
        _in_range("--cpus", self.cpus, 1, MAX_CPUS)
        _in_range("--memory", self.memory_bytes, 128 * MIB, 1 << 40, " bytes (128M to 1T)")
        least = _LEAST_DISK_BYTES[self.filesystem]
        what = f" bytes for {self.filesystem} ({least // MIB}M to 8T)"
        _in_range("--disk", self.disk_bytes, least, 8 << 40, what)
        if self.iops is not None:
            _in_range("--iops", self.iops, 1, 10_000_000)
        _in_range("--latency-us", self.latency_us, 0, 10_000_000)
        if not 0 < self.timeout_seconds <= 7 * 86_400:
            raise InputError(
                f"--timeout {self.timeout_seconds:g}: must be above 0 and at most 604800 seconds"
            )
        if self.icount and self.cpus != 1:
            raise InputError(f"--icount: counts on one CPU only (give --cpus 1, not {self.cpus})")
        for share in self.shares:
            if not share.is_dir():
                raise InputError(f"--share {share}: not a folder")


@dataclass(frozen=True)
class Result:
    """The result of a command in a machine.

    output, errors: its stdout and stderr, at most 64 MiB each; `lost_bytes` counts the rest.
    seconds: host time from its start to its end; boot_seconds: host time before that.
    cpu_seconds: guest CPU time of the command and the children that it waited for.
    instructions: with `icount`, the instructions in `cpu_seconds`; else None.
    accelerator: kvm or tcg; an emulated CPU is about twenty times slower.
    kernel_log: the guest's kernel log from its first line.
    """

    returncode: int
    output: str
    errors: str
    lost_bytes: int
    seconds: float
    boot_seconds: float
    cpu_seconds: float
    instructions: int | None
    accelerator: str
    kernel_log: str


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{option} {value}: must be one of {', '.join(allowed)}")


def _in_range(option: str, value: int, least: int, most: int, unit: str = "") -> None:
    if not least <= value <= most:
        raise InputError(f"{option} {value}: must be {least} to {most}{unit}")
