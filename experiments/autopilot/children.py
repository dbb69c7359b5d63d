# SPDX-License-Identifier: Apache-2.0
"""Child processes that end with this one, and whose early end is noticed."""

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
"""Below the ephemeral ports that the kernel assigns to clients, so that a server that restarts
finds its port free.
"""


class ChildError(Exception):
    """A child ended too early, or no port is free.

    The message has the child's name, its status and the last lines of its log.
    """


@dataclass(frozen=True)
class Child:
    """A process, and the file with its stdout and stderr."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def tail(self) -> str:
        """Return the last lines of the log."""
        lines = self.log.read_text("utf-8", "replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on now."""
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ChildError(f"no port from {PORTS[0]} to {PORTS[-1]} is free")


class Children:
    """Starts children, notices when one dies, and ends all of them at the end of its block."""

    def __init__(self, folder: Path) -> None:
        """Prepare to start children. `folder` receives their logs, each named NAME.log."""
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
        """Start `command`. Raises ChildError when there is no such program.

        It gets its own session, so that a Ctrl-C on the terminal reaches only this process, which
        then ends the children in order. If this process is killed, so are they.
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
        """Raise ChildError if a child has ended."""
        for child in self._started:
            status = child.process.poll()
            if status is not None:
                how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
                raise ChildError(f"{child.name}: ended with {how}; its log ends\n{child.tail()}")

    def forget(self, child: Child) -> None:
        """Remove a child that has ended as it should, so that `check` ignores it."""
        self._started.remove(child)

    def stop(self) -> None:
        """End all children, the last first: by SIGTERM, and by SIGKILL after a grace period."""
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
