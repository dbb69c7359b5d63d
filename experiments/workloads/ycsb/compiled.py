# SPDX-License-Identifier: Apache-2.0
"""Compiles the YCSB client when it is older than its sources.

python -m experiments.workloads.ycsb.compiled    compiles it and prints its path
"""

import sys
from pathlib import Path

from experiments.shared.compiling import WARNINGS, ProgramError, is_fresh, run_compiler
from experiments.shared.rows import ROOT

HERE = Path(__file__).resolve().parent
SHARED = ROOT / "experiments" / "kernel_guest" / "programs"
FOLDER = ROOT / "build" / "workloads"
# The histogram is shared with C programs, which needs <stdatomic.h> of C++23.
LANGUAGE = "-std=c++23"


def program() -> Path:
    """Return the client's binary.

    Raises ProgramError if it cannot be compiled (needs librocksdb-dev).
    """
    binary = FOLDER / "ycsb"
    sources = sorted(HERE.glob("*.cc"))
    if is_fresh(binary, [*sources, *HERE.glob("*.h"), *SHARED.glob("*.[ch]")]):
        return binary
    FOLDER.mkdir(parents=True, exist_ok=True)
    counters = FOLDER / "counters.o"
    run_compiler(["cc", *WARNINGS, "-c", "-o", str(counters), f"{SHARED}/counters.c"], counters)
    words = [*("c++", LANGUAGE, *WARNINGS, "-o", str(binary)), *map(str, sources), str(counters)]
    run_compiler([*words, "-lrocksdb"], binary)
    return binary


def main() -> int:
    """Run the command line."""
    try:
        print(program())
    except ProgramError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
