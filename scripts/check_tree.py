# SPDX-License-Identifier: Apache-2.0
"""Check every source file that git would track, and the imports of the controller's folders.

The checks are the licence line and the length of a file, the number of lines that a patch changes,
and for the controller the layers of `arrows`. Prints one line per offence, and exits 1 if there is
any.
"""

import subprocess
import sys
from pathlib import Path

import arrows
import crate_arrows

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 400
MARK = "SPDX-License-Identifier: "
SUFFIXES = {
    ".py",
    ".pyi",
    ".rs",
    ".c",
    ".cc",
    ".h",
    ".sh",
    ".toml",
    ".yml",
    ".yaml",
    ".proto",
    ".patch",
}
NAMES = {"Makefile", ".gitignore", ".clang-format"}
LICENCES = {"bpf": "GPL-2.0-only OR BSD-2-Clause", "kernel": "GPL-2.0-only"}


def is_source(path: Path) -> bool:
    """Whether the rules apply to a file: by suffix or name, or a script that begins with `#!`."""
    if path.suffix in SUFFIXES or path.name in NAMES:
        return True
    if path.suffix:
        return False
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def offences(relative: Path, lines: list[str]) -> list[str]:
    """Return the offences of one file, one line each."""
    found = []
    expected = MARK + LICENCES.get(relative.parts[0], "Apache-2.0")
    head = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
    # A patch begins with its commit message. The files that it adds name their licence.
    needs_licence = relative.suffix != ".patch"
    if needs_licence and (not head or not head[0].rstrip(" */->").endswith(expected)):
        found.append(f"{relative}: the first line must say '{expected}'")
    length = _length(relative, lines)
    if length > MAX_LINES:
        found.append(f"{relative}: {length} lines, at most {MAX_LINES} are allowed")
    return found


def _length(relative: Path, lines: list[str]) -> int:
    """Return the lines of a file; of a patch the changed lines, without message and context."""
    if relative.suffix != ".patch":
        return len(lines)
    return sum(line[:1] in ("+", "-") and line[:3] not in ("+++", "---") for line in lines)


def main() -> int:
    """Check the tree. Return 0 if there are no offences."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    paths = [Path(name) for name in sorted(listed.decode().split("\0")) if name]
    found: list[str] = []
    checked = 0
    for path in paths:
        if (ROOT / path).is_file() and is_source(ROOT / path):
            found += offences(path, (ROOT / path).read_text("utf-8").splitlines())
            checked += 1
    found += arrows.offences(ROOT / "controller" / "cachepilot")
    found += crate_arrows.offences(ROOT / "agent" / "src")
    for line in found:
        print(line, file=sys.stderr)
    print(f"{checked} source files checked, {len(found)} offences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
