#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the dashboard's page into the Python package if its sources have changed.

With --packages, only install the npm packages, which `scripts/lint` needs too.
"""

import argparse
import hashlib
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "controller" / "dashboard"
MODULES = SOURCES / "node_modules"
BUILT = ROOT / "controller" / "cachepilot" / "dashboard"
QUIET = ("--no-audit", "--no-fund", "--loglevel=error")


def _digest(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(f"{path.relative_to(SOURCES)}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _is_stamped(stamp: Path, digest: str) -> bool:
    return stamp.is_file() and stamp.read_text("utf-8") == digest


def _npm(*words: str) -> None:
    done = subprocess.run(("npm", *words), cwd=SOURCES, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def install() -> None:
    """Install exactly what package-lock.json names."""
    digest = _digest([SOURCES / "package.json", SOURCES / "package-lock.json"])
    stamp = MODULES / ".stamp"
    if not _is_stamped(stamp, digest):
        print("==> installing the dashboard's packages")
        _npm("ci", *QUIET)
        stamp.write_text(digest, "utf-8")


def build() -> None:
    """Build the page. The stamp lies among the built files, so that both are deleted together."""
    found = (path for path in SOURCES.rglob("*") if path.is_file())
    digest = _digest(path for path in found if MODULES not in path.parents)
    stamp = BUILT / ".stamp"
    if not _is_stamped(stamp, digest):
        print("==> building the dashboard: controller/cachepilot/dashboard")
        _npm("run", "--silent", "build", "--", "--logLevel=warn")
        stamp.write_text(digest, "utf-8")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", action="store_true", help="only install the npm packages")
    is_only_packages = parser.parse_args().packages
    install()
    if not is_only_packages:
        build()
    return 0


if __name__ == "__main__":
    sys.exit(main())
