# SPDX-License-Identifier: Apache-2.0
"""Guest program: the agent's node without its session, as a process that takes orders."""

import json
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class Node:
    """The node as a process: each order on stdin is answered on stdout."""

    def __init__(self, program: str, state: Path, pattern: str, mode: str) -> None:
        self._process = subprocess.Popen(
            [program, str(state), pattern, mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.hello = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the node ended with status {self._process.wait()}")
        return json.loads(line)

    def ask(self, order: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        return self._answer()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
