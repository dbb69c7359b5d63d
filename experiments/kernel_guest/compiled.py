# SPDX-License-Identifier: Apache-2.0
"""The C programs of the guest and a QEMU plugin, compiled on the host, where that is fast."""

from pathlib import Path

from experiments.shared.compiling import WARNINGS, is_fresh, run_compiler
from experiments.shared.rows import ROOT

SOURCES = Path(__file__).resolve().parent / "programs"
FOLDER = ROOT / "build" / "kernel-guest"
# Linker options besides the C library. Programs without libraries are static and need no loader.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "play_stream": ("-static",),
    "get_scan": ("-static",),
    "count_cost": ("-static",),
    "hit_threads": ("-static",),
    "rocksdb_reads": ("-lrocksdb",),
    # QEMU loads this one, not the guest.
    "count_blocks": ("-shared", "-fPIC", "-fvisibility=hidden"),
}


def program(name: str) -> Path:
    """Return the binary of `programs/NAME.c`.

    It is compiled now if it is missing or older than a source.
    """
    binary = FOLDER / name
    if is_fresh(binary, SOURCES.iterdir()):
        return binary
    FOLDER.mkdir(parents=True, exist_ok=True)
    sources = [str(SOURCES / file) for file in (f"{name}.c", "counters.c", "input.c")]
    words = ["cc", *WARNINGS, "-o", str(binary), *sources, *LIBRARIES[name]]
    run_compiler(words, SOURCES / f"{name}.c")
    return binary
