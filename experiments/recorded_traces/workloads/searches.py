# SPDX-License-Identifier: Apache-2.0
"""Full text searches as a developer makes them: mostly in the few packages of interest.

    searches.py FOLDER    FOLDER holds packages; every search is a ripgrep of its own

Of SEARCHES searches, every EVERYWHERE-th goes over all packages, the others over one that is drawn
by Zipf's law.
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
