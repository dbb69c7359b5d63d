# SPDX-License-Identifier: Apache-2.0
"""Search a folder of packages as a developer does: mostly a few packages of interest.

    searches.py FOLDER    FOLDER holds the packages; every search is a ripgrep process of its own

Every EVERYWHERE-th of the SEARCHES searches goes over all packages. Each of the others goes over
one package, drawn by Zipf's law.
"""

import random
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

SEARCHES = 300
EVERYWHERE = 30
SEARCH = "rg --threads 1 --no-mmap --no-config --type py --count-matches"
WORDS = ("return", "lambda", "Error", "encode", "async def", "self._lock", "deprecated", "bytes")


def main() -> int:
    """Run the command line."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    packages = sorted(path for path in folder.iterdir() if (path / "__init__.py").is_file())
    draw = random.Random(1)
    draw.shuffle(packages)
    weights = list(accumulate(1 / rank for rank in range(1, len(packages) + 1)))
    for i in range(SEARCHES):
        [package] = draw.choices(packages, cum_weights=weights)
        where = folder if i % EVERYWHERE == EVERYWHERE - 1 else package
        command = [*SEARCH.split(), draw.choice(WORDS), str(where)]
        # Status 1 means no match, which is not a failure.
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode > 1:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
