# SPDX-License-Identifier: Apache-2.0
"""The C programs of the guest, and a plugin of QEMU: compiled on the host, where it is quick."""

import subprocess
from pathlib import Path

from experiments.shared.rows import ROOT

SOURCES = Path(__file__).resolve().parent / "programs"
FOLDER = ROOT / "build" / "kernel-guest"
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
# What a program links beside the C library; those without run static, without a loader.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "play_stream": ("-static",),
    "get_scan": ("-static",),
    "count_cost": ("-static",),
    "rocksdb_reads": ("-lrocksdb",),
    # Loaded by QEMU, not by the guest.
    "count_blocks": ("-shared", "-fPIC", "-fvisibility=hidden"),
}


class ProgramError(Exception):
    """A program could not be compiled; the compiler's message."""


def _is_fresh(binary: Path) -> bool:
    newest = max(path.stat().st_mtime for path in SOURCES.iterdir())
    return binary.is_file() and binary.stat().st_mtime > newest


def program(name: str) -> Path:
    """The binary of `programs/NAME.c`, compiled now if it is missing or older than a source."""
    binary = FOLDER / name
    if _is_fresh(binary):
        return binary
    FOLDER.mkdir(parents=True, exist_ok=True)
    sources = [str(SOURCES / file) for file in (f"{name}.c", "counters.c", "input.c")]
    done = subprocess.run(
        ["cc", *FLAGS, "-o", str(binary), *sources, *LIBRARIES[name]],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ProgramError(f"{SOURCES / name}.c: {done.stderr.strip()}")
    return binary
