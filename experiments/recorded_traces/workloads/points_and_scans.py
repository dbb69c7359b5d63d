# SPDX-License-Identifier: Apache-2.0
"""Read a database at skewed points, with full text searches beside it for half of the time.

    points_and_scans.py create DATABASE        creates the database, 12 MiB, the same anywhere
    points_and_scans.py run DATABASE FOLDER    runs the workload; the searches go over FOLDER

Two reader tasks read rows in four regimes. The popular rows are A, A, B and B. At the start of the
second regime one ripgrep task starts. It goes over the folder several times and ends before the
last regime.
"""

import os
import random
import sqlite3
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

ROWS = 12_000
ROW_BYTES = 900  # four rows a page
READERS = 2
READS_PER_PHASE = 6_000
PASSES = 4
# The set of popular rows in each phase, and whether the search starts with it.
PHASES = (("A", False), ("A", True), ("B", False), ("B", False))
SEARCH = "rg --threads 1 --no-mmap --no-config --type py --count-matches return"


def create(path: Path) -> None:
    """Create a table of ROWS rows whose keys are 0 to ROWS - 1."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA page_size = 4096")
    connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, body BLOB)")
    draw = random.Random(1)
    rows = ((i, draw.randbytes(ROW_BYTES)) for i in range(ROWS))
    connection.executemany("INSERT INTO item VALUES (?, ?)", rows)
    connection.commit()
    connection.close()


def popularity(seed: str) -> tuple[list[int], list[float]]:
    """Return rows in order of popularity, and the cumulative weights of Zipf's law over them."""
    rows = list(range(ROWS))
    random.Random(seed).shuffle(rows)
    return rows, list(accumulate(1 / rank for rank in range(1, ROWS + 1)))


def read_rows(path: Path, reader: int, go: int, done: int) -> None:
    """Run one reader task. Each byte from `go` starts a phase, and a byte to `done` ends it."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
    connection.execute("PRAGMA mmap_size = 0")
    connection.execute("PRAGMA cache_size = 10")  # pages; small, so that the kernel's cache is used
    connection.execute("BEGIN")
    draw = random.Random(reader)
    for seed, _ in PHASES:
        rows, weights = popularity(seed)
        os.read(go, 1)
        for row in draw.choices(rows, cum_weights=weights, k=READS_PER_PHASE):
            connection.execute("SELECT body FROM item WHERE id = ?", (row,)).fetchone()
        os.write(done, b"x")


def run(path: Path, folder: Path) -> int:
    """Run the workload, and return the status of the search."""
    gates = [(os.pipe(), os.pipe()) for _ in range(READERS)]
    for reader, ((go, _), (_, done)) in enumerate(gates):
        if os.fork() == 0:
            read_rows(path, reader, go, done)
            os._exit(0)
    searches = []
    for _, searches_now in PHASES:
        if searches_now:
            command = [*SEARCH.split(), *[str(folder)] * PASSES]
            searches.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        for (_, go), _ in gates:
            os.write(go, b"x")
        for _, (done, _) in gates:
            os.read(done, 1)
    for _ in gates:
        os.wait()
    return max(search.wait() for search in searches)


def main() -> int:
    """Run the command line."""
    if len(sys.argv) == 3 and sys.argv[1] == "create":
        create(Path(sys.argv[2]))
        return 0
    if len(sys.argv) == 4 and sys.argv[1] == "run":
        return run(Path(sys.argv[2]), Path(sys.argv[3]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
