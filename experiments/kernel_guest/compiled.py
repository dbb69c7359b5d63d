# SPDX-License-Identifier: Apache-2.0
"""The C programs of the guest, and a plugin of QEMU: compiled on the host, where it is quick."""

from pathlib import Path

from experiments.shared.compiling import WARNINGS, is_fresh, run_compiler
from experiments.shared.rows import ROOT

SOURCES = Path(__file__).resolve().parent / "programs"
FOLDER = ROOT / "build" / "kernel-guest"
# What a program links beside the C library; those without run static, without a loader.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "play_stream": ("-static",),
    "get_scan": ("-static",),
    "count_cost": ("-static",),
    "hit_threads": ("-static",),
    "rocksdb_reads": ("-lrocksdb",),
    # Loaded by QEMU, not by the guest.
    "count_blocks": ("-shared", "-fPIC", "-fvisibility=hidden"),
}


def program(name: str) -> Path:
    """The binary of `programs/NAME.c`, compiled now if it is missing or older than a source."""
    binary = FOLDER / name
    if is_fresh(binary, SOURCES.iterdir()):
        return binary
    FOLDER.mkdir(parents=True, exist_ok=True)
    sources = [str(SOURCES / file) for file in (f"{name}.c", "counters.c", "input.c")]
    words = ["cc", *WARNINGS, "-o", str(binary), *sources, *LIBRARIES[name]]
    run_compiler(words, SOURCES / f"{name}.c")
    return binary
