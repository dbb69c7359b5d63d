# SPDX-License-Identifier: Apache-2.0
"""Finds the reason for a kernel's failure on the guest's console."""

import re

TAIL_LINES = 40

_STAMP = re.compile(r"^\[\s*\d+\.\d+\]\s*(?:\[\s*[TC]\d+\]\s*)?")
_FAILURES = ("BUG:", "Oops:", "general protection fault", "kernel BUG at", "stack guard page")
_PANIC = "Kernel panic - not syncing:"


def diagnosis(console: str) -> str | None:
    """Return the line that names the cause of a kernel panic, or None if there was no panic."""
    lines = [_STAMP.sub("", line).strip() for line in console.splitlines()]
    panic = next((line for line in lines if line.startswith(_PANIC)), None)
    if panic is None:
        return None
    cause = next((line for line in lines if line.startswith(_FAILURES)), None)
    return cause or panic


def tail(console: str) -> str:
    """Return the last lines of the console."""
    return "\n".join(console.splitlines()[-TAIL_LINES:])
