# SPDX-License-Identifier: Apache-2.0
"""The command lines of QEMU and of the guest's kernel."""

from dataclasses import dataclass
from pathlib import Path

from cachepilot.vm import disk
from cachepilot.vm.machine import ICOUNT_SHIFT, MIB, Machine

PORTS = ("control", "output", "errors")
"""The guest's ports in the order of their numbers, from 1; kernel/vm/guest.h has the same."""

_ROOT = "trans=virtio,version=9p2000.L,cache=loose,msize=131072"
_KERNEL_WORDS = (
    *("console=ttyS0", "panic=-1", "oops=panic", "nokaslr", "tsc=reliable", "no_timer_check"),
    # Separate page tables for the kernel make each system call slow on an emulated CPU.
    "mitigations=off",
    *("random.trust_cpu=1", "root=hosttree", "rootfstype=9p", f"rootflags={_ROOT}", "ro"),
)

# The instruction that copies a block of bytes is the fastest way on a real CPU and the slowest on
# an emulated one, where the kernel takes a third less time without it. It stays on if instructions
# are counted.
_EMULATED = "max,erms=off,fsrm=off"


@dataclass(frozen=True)
class Launch:
    """The parts of one run of QEMU besides the machine.

    initrd: loads the kernel's modules before the root is mounted; None if the kernel has none.
    ports: file descriptors that QEMU writes the ports to, in the order of PORTS.
    slow: whether a server that adds latency stands between QEMU and the image.
    """

    qemu: str
    kernel: Path
    initrd: Path | None
    init: Path
    accelerator: str
    folder: Path
    orders: Path
    image: Path
    ports: tuple[int, int, int]
    slow: bool
    interactive: bool = False

    @property
    def console_log(self) -> Path:
        """The file for the guest's console, which is its kernel log."""
        return self.folder / "console.log"


def arguments(machine: Machine, launch: Launch) -> list[str]:
    """Return the whole command line; setpriv ends QEMU when this process ends."""
    return [
        *("setpriv", "--pdeathsig", "KILL", launch.qemu),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-machine", "q35,usb=off,vmport=off,smbus=off,graphics=off"),
        *_processors(machine, launch.accelerator),
        *("-m", f"{machine.memory_bytes // MIB}M"),
        *("-kernel", str(launch.kernel), "-append", kernel_command_line(machine, launch)),
        *(("-initrd", str(launch.initrd)) if launch.initrd is not None else ()),
        *("-chardev", f"file,id=console,path={launch.console_log}", "-serial", "chardev:console"),
        # The first virtio device: the guest addresses the ports by its number, 0.
        *_ports(launch),
        *_host_tree("hosttree", Path("/"), readonly=True),
        *(word for i, share in enumerate(machine.shares) for word in _share(i, share)),
        *_disk(machine, launch),
        *machine.qemu,
    ]


def kernel_command_line(machine: Machine, launch: Launch) -> str:
    """Return the kernel's command line; words of `append` come last and so take precedence."""
    # With icount, an instruction takes a nanosecond by definition: no calibration is needed.
    clock = [f"tsc_early_khz={1_000_000 >> ICOUNT_SHIFT}"] if machine.icount else []
    own = [*_KERNEL_WORDS, f"init={launch.init}", f"CACHEPILOT_RUN={launch.orders}", *clock]
    return " ".join([*own, machine.append]).strip()


def _processors(machine: Machine, accelerator: str) -> list[str]:
    if machine.icount:
        return [
            *("-accel", "tcg,thread=single", "-cpu", "max", "-smp", "1"),
            *("-icount", f"shift={ICOUNT_SHIFT},sleep=off", "-seed", "1"),
            *("-rtc", "base=2026-01-01,clock=vm"),
        ]
    smp = ["-smp", str(machine.cpus)]
    if accelerator == "kvm":
        return ["-accel", "kvm", "-cpu", "host", *smp]
    return ["-accel", "tcg,thread=multi", "-cpu", _EMULATED, *smp]


def _share(number: int, share: Path) -> list[str]:
    return _host_tree(f"share{number}", share.resolve(), readonly=False)


def _host_tree(tag: str, path: Path, readonly: bool) -> list[str]:
    escaped = str(path).replace(",", ",,")
    options = f"local,id={tag},path={escaped},security_model=none,multidevs=remap"
    return [
        *("-fsdev", options + (",readonly=on" if readonly else "")),
        *("-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"),
    ]


def _disk(machine: Machine, launch: Launch) -> list[str]:
    if launch.slow:
        socket = disk.socket_path(launch.folder)
        file = f"file.driver=nbd,file.server.type=unix,file.server.path={socket}"
    else:
        file = f"file={launch.image},cache=unsafe,aio=threads"
    limit = f",throttling.iops-total={machine.iops}" if machine.iops is not None else ""
    return [
        *("-drive", f"if=none,id=scratch,format=raw,discard=unmap,{file}{limit}"),
        *("-device", "virtio-blk-pci,drive=scratch"),
    ]


def _ports(launch: Launch) -> list[str]:
    words = ["-device", "virtio-serial-pci,max_ports=8"]
    if launch.interactive:
        words += ["-chardev", "stdio,id=terminal,signal=off"]
        words += ["-device", "virtconsole,chardev=terminal,nr=0"]
    for number, (name, descriptor) in enumerate(zip(PORTS, launch.ports, strict=True), start=1):
        words += ["-chardev", f"file,id={name},path=/dev/fd/{descriptor}"]
        words += ["-device", f"virtserialport,chardev={name},name=cachepilot.{name},nr={number}"]
    return words
