# SPDX-License-Identifier: Apache-2.0
"""Compiles programs of experiments when they are older than their sources."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

WARNINGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread")


class ProgramError(Exception):
    """A program could not be compiled. The message is the compiler's."""


def is_fresh(binary: Path, sources: Iterable[Path]) -> bool:
    """Return whether `binary` exists and is newer than all of `sources`."""
    newest = max(path.stat().st_mtime for path in sources)
    return binary.is_file() and binary.stat().st_mtime > newest


def run_compiler(words: Sequence[str], what: Path) -> None:
    """Run a compiler. Raises ProgramError with the name of its output `what` and its messages."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProgramError(f"{what}: {done.stderr.strip()}")
