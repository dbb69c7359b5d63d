# SPDX-License-Identifier: Apache-2.0
"""Child processes that live as long as this one and are missed when they die."""

import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from types import TracebackType

TAIL_LINES = 15
GRACE_SECONDS = 5.0
PORTS = range(20_000, 32_768)
"""Below those that the kernel gives to whoever connects: a server that ends and starts again finds
its port free."""


class ChildError(Exception):
    """A child that ended too early: its name, status and the last lines of its log; or no port."""


@dataclass(frozen=True)
class Child:
    """A process and the file that has its stdout and stderr."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def tail(self) -> str:
        """The last lines of the log."""
        lines = self.log.read_text("utf-8", "replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ChildError(f"no port from {PORTS[0]} to {PORTS[-1]} is free")


class Children:
    """Starts children, notices those that die, and ends all of them at the end of its block."""

    def __init__(self, folder: Path) -> None:
        """`folder` takes the logs, NAME.log each."""
        self._folder = folder
        self._started: list[Child] = []
        self._logs = ExitStack()

    def __enter__(self) -> "Children":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, name: str, command: Sequence[str | Path]) -> Child:
        """Starts `command`; ChildError when there is no such program.

        It gets a session of its own, so that a Ctrl-C of the terminal reaches this process alone,
        which then ends the children in order; if this process is killed, so are they.
        """
        path = self._folder / f"{name}.log"
        log = self._logs.enter_context(path.open("wb"))
        words = ["setpriv", "--pdeathsig", "KILL", *map(str, command)]
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ChildError(f"{name}: cannot be started: {error}") from None
        child = Child(name, process, path)
        self._started.append(child)
        return child

    def check(self) -> None:
        """Raises ChildError when a child has ended."""
        for child in self._started:
            status = child.process.poll()
            if status is not None:
                how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
                raise ChildError(f"{child.name}: ended with {how}; its log ends\n{child.tail()}")

    def forget(self, child: Child) -> None:
        """A child that has ended as it should; it is not missed."""
        self._started.remove(child)

    def stop(self) -> None:
        """Ends all children, the last first: by SIGTERM, by SIGKILL after a grace."""
        running = [child.process for child in reversed(self._started)]
        for process in running:
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._started.clear()
        self._logs.close()
