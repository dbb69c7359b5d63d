# SPDX-License-Identifier: Apache-2.0
"""An interactive shell in a machine, on this terminal."""

import os
import shutil
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cachepilot.errors import InputError
from cachepilot.vm.errors import VmError
from cachepilot.vm.machine import Machine
from cachepilot.vm.orders import Terminal
from cachepilot.vm.runner import Control, started

# Without the user's start-up files, which take long on an emulated CPU.
_PROGRAM = ("/bin/bash", "--norc")
_PROMPT = r"[vm] \w \$ "


def shell(machine: Machine) -> int:
    """Connect the terminal to a shell in a new machine; return the shell's exit status."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise InputError("vm shell: needs a terminal; use vm run for a command without one")
    size = shutil.get_terminal_size()
    control = Control()
    environment = os.environ if machine.environment is None else machine.environment
    machine = replace(machine, environment={**environment, "PS1": _PROMPT})
    with (
        started(machine, _PROGRAM, Terminal(size.lines, size.columns)) as (launch, _, readers),
        _raw_terminal(),
    ):
        while data := os.read(readers[0], 4096):
            control.take(data)
            if control.exit is not None or control.failure is not None:
                break
        console = launch.console_log.read_text("utf-8", "replace")
    if control.exit is None:
        raise VmError(f"the guest ended: {control.failure or 'see its console'}", console)
    return control.exit.returncode


@contextmanager
def _raw_terminal() -> Iterator[None]:
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        # QEMU made the shared terminal non-blocking, and was killed before it could restore that.
        os.set_blocking(descriptor, True)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
