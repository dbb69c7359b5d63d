# SPDX-License-Identifier: Apache-2.0
"""Boots a machine, runs one command in it, and collects its output."""

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from cachepilot.errors import InputError
from cachepilot.vm import accelerator, disk, host, orders, qemu
from cachepilot.vm.console import diagnosis, tail
from cachepilot.vm.errors import VmError, VmTimeout
from cachepilot.vm.folder import temporary_folder
from cachepilot.vm.machine import ICOUNT_SHIFT, MIB, Machine, Result

MAX_CAPTURE_BYTES = 64 * MIB
"""Bytes kept of each stream; what exceeds them is counted, and passed to the sink all the same."""

Sink = Callable[[bytes], None]


@dataclass
class Stream:
    """One output stream of the command, kept up to MAX_CAPTURE_BYTES."""

    sink: Sink | None = None
    kept: bytearray = field(default_factory=bytearray)
    received_bytes: int = 0

    def take(self, data: bytes) -> None:
        """Pass data to the sink, and keep what still fits."""
        self.kept += data[: max(0, MAX_CAPTURE_BYTES - len(self.kept))]
        self.received_bytes += len(data)
        if self.sink is not None:
            self.sink(data)

    @property
    def text(self) -> str:
        """The kept bytes as text."""
        return self.kept.decode("utf-8", "replace")

    @property
    def lost_bytes(self) -> int:
        """The number of bytes that were not kept."""
        return self.received_bytes - len(self.kept)


@dataclass(frozen=True)
class Exit:
    """The guest's report on its command: status, bytes written to both streams, CPU time."""

    returncode: int
    output_bytes: int
    errors_bytes: int
    cpu_us: int


@dataclass
class Control:
    """The lines of the control port, and when they arrived (monotonic seconds)."""

    pending: bytes = b""
    started_at: float | None = None
    ended_at: float | None = None
    exit: Exit | None = None
    failure: str | None = None

    def take(self, data: bytes) -> None:
        """Parse the lines in `data`."""
        *lines, self.pending = (self.pending + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode("utf-8", "replace").partition(" ")
            if word == "start":
                self.started_at = time.monotonic()
            elif word == "exit":
                self.ended_at = time.monotonic()
                self.exit = Exit(*map(int, rest.split()))
            else:
                self.failure = rest


def run(
    machine: Machine,
    command: Sequence[str],
    *,
    on_output: Sink | None = None,
    on_errors: Sink | None = None,
) -> Result:
    """Run a command in a new machine and return its result.

    The sinks get its stdout and stderr while it runs. Raises VmTimeout if boot and command take
    longer than the machine's time-out, and VmError if the machine cannot start or dies.
    """
    if not command:
        raise InputError("COMMAND: give the command to run")
    booted_at = time.monotonic()
    with ExitStack() as stack:
        launch, emulator, readers = stack.enter_context(started(machine, command, None))
        streams = (Control(), Stream(on_output), Stream(on_errors))
        deadline = booted_at + machine.timeout_seconds
        _collect(streams, readers, deadline)
        control, output, errors = streams
        if control.exit is None or control.started_at is None or control.ended_at is None:
            raise _broken(machine, launch, emulator, control, time.monotonic() >= deadline)
        log = launch.console_log.read_text("utf-8", "replace")
        return Result(
            returncode=control.exit.returncode,
            output=output.text,
            errors=errors.text,
            lost_bytes=output.lost_bytes + errors.lost_bytes,
            seconds=control.ended_at - control.started_at,
            boot_seconds=control.started_at - booted_at,
            cpu_seconds=control.exit.cpu_us / 1e6,
            instructions=control.exit.cpu_us * 1000 >> ICOUNT_SHIFT if machine.icount else None,
            accelerator=launch.accelerator,
            kernel_log=log.replace("\r\n", "\n"),
        )


@contextmanager
def started(
    machine: Machine, command: Sequence[str], terminal: orders.Terminal | None
) -> Iterator[tuple[qemu.Launch, "subprocess.Popen[bytes]", tuple[int, int, int]]]:
    """Start QEMU with the machine; yield it with the file descriptors to read its ports from.

    The process, its files and the descriptors are gone at the end of the block.
    """
    host.check_memory(machine.memory_bytes)
    emulator_path = host.qemu()
    kernel = host.kernel_image(machine.kernel)
    chosen = "tcg" if machine.icount else accelerator.choose(emulator_path, kernel)
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        orders_file = folder / "orders"
        orders_file.write_bytes(orders.encode(machine, command, terminal))
        image = disk.make_image(machine, folder)
        server = disk.start_server(machine, image, folder)
        if server is not None:
            stack.callback(_end, server)
        pipes = [os.pipe() for _ in qemu.PORTS]
        readers = (pipes[0][0], pipes[1][0], pipes[2][0])
        writers = (pipes[0][1], pipes[1][1], pipes[2][1])
        for reader in readers:
            stack.callback(os.close, reader)
        launch = qemu.Launch(
            qemu=emulator_path,
            kernel=kernel,
            initrd=host.initial_ram_disk(kernel),
            init=host.guest_init(),
            accelerator=chosen,
            folder=folder,
            orders=orders_file,
            image=image,
            ports=writers,
            slow=server is not None,
            interactive=terminal is not None,
        )
        with (folder / "qemu.log").open("wb") as log:
            emulator = subprocess.Popen(
                qemu.arguments(machine, launch),
                stdin=None if launch.interactive else subprocess.DEVNULL,
                stdout=None if launch.interactive else log,
                stderr=log,
                pass_fds=writers,
            )
        stack.callback(_end, emulator)
        for writer in writers:
            os.close(writer)
        yield launch, emulator, readers


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _complete(streams: tuple[Control, Stream, Stream]) -> bool:
    control, output, errors = streams
    return control.failure is not None or (
        control.exit is not None
        and output.received_bytes >= control.exit.output_bytes
        and errors.received_bytes >= control.exit.errors_bytes
    )


def _collect(
    streams: tuple[Control, Stream, Stream], readers: tuple[int, int, int], deadline: float
) -> None:
    """Read the ports until the command's last byte arrived, QEMU ended or the time is up."""
    with selectors.DefaultSelector() as selector:
        for stream, reader in zip(streams, readers, strict=True):
            selector.register(reader, selectors.EVENT_READ, stream)
        while selector.get_map() and not _complete(streams):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            for key, _ in selector.select(left):
                data = os.read(key.fd, 1 << 16)
                if data:
                    key.data.take(data)
                else:
                    selector.unregister(key.fd)


def _broken(
    machine: Machine,
    launch: qemu.Launch,
    emulator: "subprocess.Popen[bytes]",
    control: Control,
    timed_out: bool,
) -> VmError:
    """Return why there is no result, from the output of the guest, its console and QEMU."""
    console = ""
    if launch.console_log.exists():
        console = launch.console_log.read_text("utf-8", "replace").replace("\r\n", "\n")
    if control.failure is not None:
        return VmError(f"the guest could not start the command: {control.failure}", tail(console))
    found = diagnosis(console)
    if found is not None:
        return VmError(f"the guest's kernel failed: {found}", tail(console))
    if timed_out:
        what = "command did not end" if control.started_at is not None else "guest did not boot"
        return VmTimeout(f"the {what} within {machine.timeout_seconds:g} s", tail(console))
    status = emulator.wait()
    said = (launch.folder / "qemu.log").read_text("utf-8", "replace").strip().splitlines()
    reason = said[-1] if said else f"status {status}, and it gave no reason"
    return VmError(f"QEMU ended before the command did: {reason}", tail(console))
