# SPDX-License-Identifier: Apache-2.0
"""What the guest's console tells of a kernel that failed."""

import re

TAIL_LINES = 40

_STAMP = re.compile(r"^\[\s*\d+\.\d+\]\s*(?:\[\s*[TC]\d+\]\s*)?")
_FAILURES = ("BUG:", "Oops:", "general protection fault", "kernel BUG at", "stack guard page")
_PANIC = "Kernel panic - not syncing:"


def diagnosis(console: str) -> str | None:
    """The line that names the failure which brought the kernel down; None if it did not panic."""
    lines = [_STAMP.sub("", line).strip() for line in console.splitlines()]
    panic = next((line for line in lines if line.startswith(_PANIC)), None)
    if panic is None:
        return None
    cause = next((line for line in lines if line.startswith(_FAILURES)), None)
    return cause or panic


def tail(console: str) -> str:
    """The last lines of the console."""
    return "\n".join(console.splitlines()[-TAIL_LINES:])
