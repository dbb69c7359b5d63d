# SPDX-License-Identifier: Apache-2.0
"""Time `make run` in a new clone of the present commit, and once more after it."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from experiments.kernel_guest.guest_run import say
from experiments.shared import table
from experiments.shared.rows import ROOT, Row

EXPERIMENT = Path(__file__).resolve().parent
COMMAND = "experiments/first_run/run"
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Time of `make run`: results

Written by `experiments/first_run/run` from `results.json`; README.md says what is measured.
"""
NEW_GOAL_S, AGAIN_GOAL_S = 600.0, 100.0
DEADLINE_S = 3600.0
CLONE_S = 60.0


class RunError(Exception):
    """`make run` failed. The message is one line, and names the log."""


def _make_run_s(clone: Path, log: Path) -> float:
    """Return the seconds that `make run` takes; its output goes to `log`.

    Raises RunError if it fails or exceeds the deadline.
    """
    begun = time.monotonic()
    with log.open("w") as out:
        try:
            done = subprocess.run(
                ["make", "run"], cwd=clone, stdout=out, stderr=out, timeout=DEADLINE_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise RunError(f"make run takes longer than {DEADLINE_S:g} s: {log}") from None
    if done.returncode:
        raise RunError(f"make run ended with status {done.returncode}: {log}")
    return time.monotonic() - begun


def measure(folder: Path, logs: Path) -> list[Row]:
    """Clone the checkout's commit into `folder`, and run it twice."""
    clone = folder / "clone"
    clone_command = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)]
    subprocess.run(clone_command, check=True, timeout=CLONE_S)
    say("make run in a new clone")
    new_s = _make_run_s(clone, logs / "new.log")
    say(f"{new_s:.0f} s; make run once more")
    again_s = _make_run_s(clone, logs / "again.log")
    about = "installed packages and downloads of this user are kept"
    return [
        Row("first_run.new_clone_s", new_s, "s", goal=NEW_GOAL_S, reference=about),
        Row("first_run.again_s", again_s, "s", goal=AGAIN_GOAL_S),
    ]


def main() -> int:
    """Return 0 when everything has been measured, 1 if `make run` fails."""
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    logs = ROOT / "build" / "first_run"
    logs.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = measure(Path(folder), logs)
    except RunError as error:
        print(f"first_run: error: {error}", file=sys.stderr)
        return 1
    table.publish(EXPERIMENT, HEAD, rows, COMMAND, lambda _: True)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
