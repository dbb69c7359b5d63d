# SPDX-License-Identifier: Apache-2.0
"""Failures of a virtual machine, as opposed to failures of the command in it."""


class VmError(Exception):
    """The machine could not be started, or ended before its command did.

    The message is one line; `console` is the end of the guest's console, if there was one.
    """

    def __init__(self, message: str, console: str = "") -> None:
        super().__init__(message)
        self.console = console


class VmTimeout(VmError):
    """The command did not end in time; the machine was killed."""
