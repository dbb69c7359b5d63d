# SPDX-License-Identifier: Apache-2.0
"""`cachepilot vm`: a command or a shell on one of this project's kernels in a virtual machine."""

import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from cachepilot import vm
from cachepilot.cli.terminal import tables
from cachepilot.cli.terminal.options import JsonOption
from cachepilot.errors import InputError

EXIT_VM_FAILED = 125
EXIT_VM_TIMEOUT = 124

app = typer.Typer(
    help="Run commands on the patched kernel in a virtual machine.",
    rich_markup_mode=None,
    no_args_is_help=False,
)

KernelOption = Annotated[
    str, typer.Option(metavar="VARIANT", help="Kernel: patched, stock, debug or debian.")
]
CpusOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Virtual CPUs, 1 to 16.  [default: 2; 1 with --icount]"),
]
MemoryOption = Annotated[str, typer.Option(metavar="SIZE", help="Memory, like 512M or 2G.")]
DiskOption = Annotated[str, typer.Option(metavar="SIZE", help="Size of the scratch disk.")]
FilesystemOption = Annotated[
    str,
    typer.Option(metavar="NAME", help="File system of /mnt/scratch: ext4 or xfs; none: /dev/vda."),
]
IopsOption = Annotated[
    int | None, typer.Option(metavar="N", help="Most requests per second of the scratch disk.")
]
LatencyOption = Annotated[
    int, typer.Option(metavar="N", help="Microseconds that the scratch disk adds to each request.")
]
AppendOption = Annotated[
    str, typer.Option(metavar="WORDS", help="Words to add to the kernel's command line.")
]
ShareOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="DIR", help="Folder of the host that the guest may write; repeatable."),
]

_UNITS_BYTES = {"M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def size_bytes(option: str, text: str) -> int:
    """Return a size like 512M, 2G or 2GiB in bytes; InputError names the option."""
    match = re.fullmatch(r"(\d{1,9})([MGT])(?:iB)?", text, re.ASCII)
    if match is None:
        raise InputError(f"{option} {text}: not a size (allowed: like 512M, 2G or 1T)")
    return int(match[1]) * _UNITS_BYTES[match[2]]


def _cpus(given: int | None, icount: bool) -> int:
    if given is not None:
        return given
    return 1 if icount else 2


def _shares(given: list[Path] | None) -> tuple[Path, ...]:
    return tuple(share.absolute() for share in given or [])


@contextmanager
def _failures() -> Iterator[None]:
    """Exit with a separate status if the machine failed, and not the command."""
    try:
        yield
    except vm.VmError as error:
        if error.console:
            print(error.console, file=sys.stderr)
        print(f"cachepilot: error: {error}", file=sys.stderr)
        timed_out = isinstance(error, vm.VmTimeout)
        raise typer.Exit(EXIT_VM_TIMEOUT if timed_out else EXIT_VM_FAILED) from None


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _sink(stream: Any) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        stream.buffer.write(data)
        stream.buffer.flush()

    return write


@app.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
def run(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="The command and its arguments.")
    ],
    kernel: KernelOption = "patched",
    cpus: CpusOption = None,
    memory: MemoryOption = "2G",
    disk: DiskOption = "2G",
    filesystem: FilesystemOption = "ext4",
    iops: IopsOption = None,
    latency_us: LatencyOption = 0,
    append: AppendOption = "",
    icount: Annotated[
        bool,
        typer.Option("--icount", help="One CPU whose clock counts instructions; see --json."),
    ] = False,
    share: ShareOption = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time-out of boot and command together.")
    ] = 600.0,
    as_json: JsonOption = False,
) -> None:
    """Run a command in a new virtual machine; its output and exit status are the command's.

    The host's files are visible read-only under the same paths, /tmp, /var/tmp, /run and /mnt
    excepted, which are empty; the scratch disk is mounted at /mnt/scratch. Status 124 means that
    the time was up, 125 that the machine failed.
    """
    machine = vm.Machine(
        kernel=kernel,
        cpus=_cpus(cpus, icount),
        memory_bytes=size_bytes("--memory", memory),
        disk_bytes=size_bytes("--disk", disk),
        filesystem=filesystem,
        iops=iops,
        latency_us=latency_us,
        append=append,
        icount=icount,
        shares=_shares(share),
        timeout_seconds=timeout,
    )
    signal.signal(signal.SIGTERM, _stop)
    with _failures():
        if as_json:
            result = vm.run(machine, command)
            tables.print_json(asdict(result))
        else:
            result = vm.run(
                machine, command, on_output=_sink(sys.stdout), on_errors=_sink(sys.stderr)
            )
    raise typer.Exit(result.returncode)


@app.command()
def shell(
    kernel: KernelOption = "patched",
    cpus: CpusOption = None,
    memory: MemoryOption = "2G",
    disk: DiskOption = "2G",
    filesystem: FilesystemOption = "ext4",
    iops: IopsOption = None,
    latency_us: LatencyOption = 0,
    append: AppendOption = "",
    share: ShareOption = None,
) -> None:
    """Open a shell in a new virtual machine; it ends with the shell."""
    machine = vm.Machine(
        kernel=kernel,
        cpus=_cpus(cpus, icount=False),
        memory_bytes=size_bytes("--memory", memory),
        disk_bytes=size_bytes("--disk", disk),
        filesystem=filesystem,
        iops=iops,
        latency_us=latency_us,
        append=append,
        shares=_shares(share),
    )
    signal.signal(signal.SIGTERM, _stop)
    with _failures():
        status = vm.shell(machine)
    raise typer.Exit(status)
