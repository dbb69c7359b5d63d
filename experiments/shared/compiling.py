# SPDX-License-Identifier: Apache-2.0
"""Programs of experiments, compiled when they are older than their sources."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

WARNINGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread")


class ProgramError(Exception):
    """A program could not be compiled; the compiler's message."""


def is_fresh(binary: Path, sources: Iterable[Path]) -> bool:
    """Whether `binary` is there and newer than every one of `sources`."""
    newest = max(path.stat().st_mtime for path in sources)
    return binary.is_file() and binary.stat().st_mtime > newest


def run_compiler(words: Sequence[str], what: Path) -> None:
    """Runs a compiler; ProgramError names `what` it was to make and what it said."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProgramError(f"{what}: {done.stderr.strip()}")
