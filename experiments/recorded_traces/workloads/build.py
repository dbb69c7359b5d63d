# SPDX-License-Identifier: Apache-2.0
"""Compile a folder from scratch, twice. One compiler after the other reads the shared headers.

build.py FOLDER OUT    compiles every .cc of FOLDER, without optimisation, into OUT
"""

import subprocess
import sys
from pathlib import Path

BUILDS = 2
COMPILE = "c++ -std=c++23 -O0 -c"


def main() -> int:
    """Run the command line."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    sources = sorted(Path(sys.argv[1]).glob("*.cc"))
    for _ in range(BUILDS):
        for source in sources:
            out = Path(sys.argv[2]) / f"{source.stem}.o"
            command = [*COMPILE.split(), "-o", str(out), str(source)]
            if subprocess.run(command, check=False).returncode != 0:
                return 1
    return 0 if sources else 1


if __name__ == "__main__":
    sys.exit(main())
