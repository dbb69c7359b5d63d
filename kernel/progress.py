# SPDX-License-Identifier: GPL-2.0-only
"""Copies the output of a kernel's make to a log and shows on stderr how many steps it has made.

On a terminal that is one line, written over each second; else a line every half minute.
"""

import re
import sys
import time

STEP = re.compile(r"  (CC|AS|LD|AR|HOSTCC|HOSTLD|BTF|GEN|OBJCOPY)\b")


def main(name: str, log_name: str) -> None:
    """Reads stdin to its end."""
    terminal = sys.stderr.isatty()
    pause_seconds = 1 if terminal else 30
    started = shown = time.monotonic()
    objects = 0

    def show() -> None:
        minutes, seconds = divmod(int(time.monotonic() - started), 60)
        text = f"    {name}: {objects} objects, {minutes}:{seconds:02d}"
        print(f"\r{text} " if terminal else text, end="" if terminal else "\n", file=sys.stderr)
        sys.stderr.flush()

    with open(log_name, "a", encoding="utf-8", errors="replace") as log:
        for line in sys.stdin:
            log.write(line)
            objects += STEP.match(line) is not None
            if time.monotonic() - shown >= pause_seconds:
                log.flush()
                show()
                shown = time.monotonic()
    show()
    if terminal:
        print(file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
