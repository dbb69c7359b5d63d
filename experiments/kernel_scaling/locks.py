# SPDX-License-Identifier: Apache-2.0
"""The names of the locks of the patch series, and the kernel's lock_stat counts of them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# Patterns of code that creates locks. The text in the parentheses is the name of the lock's class.
_MADE = (
    re.compile(r"^\+.*\b(?:raw_spin_lock|spin_lock|rwlock|mutex|local_lock)_init\((&?[^()]+)\)"),
    re.compile(r"^\+.*\bDEFINE_(?:RAW_SPINLOCK|SPINLOCK|RWLOCK|MUTEX)\((\w+)\)"),
    re.compile(r"^\+.*\bDEFINE_PER_CPU\(\w+_lock_t, (\w+)\)"),
)
# A line of a lock class: its name, and twelve figures.
_CLASS = re.compile(r"^\s*(\S.*?):((?:\s+[\d.]+){12})\s*$")
_CONTENTIONS, _ACQUISITIONS = 1, 7
# Number of characters of a name that the kernel prints.
_SHOWN = 37


def of_series(patches: Iterable[Path]) -> frozenset[str]:
    """Return the class names of all locks that the patches add."""
    found = set()
    for path in patches:
        for line in path.read_text("utf-8").splitlines():
            for pattern in _MADE:
                found |= {name.strip()[:_SHOWN] for name in pattern.findall(line)}
    return frozenset(found)


@dataclass(frozen=True)
class Counts:
    """For some locks together: how often they were taken, and how often a thread had to wait."""

    acquisitions: int = 0
    contentions: int = 0


def counted(text: str, names: Iterable[str]) -> Counts:
    """Return the sum of the figures in /proc/lock_stat over the named classes."""
    wanted = set(names)
    acquisitions = contentions = 0
    for line in text.splitlines():
        match = _CLASS.match(line)
        # A class that is listed again, for a subclass or another version, has a suffix.
        if match and re.sub(r"(#\d+)?(/\d+)?(-[RW])?$", "", match[1]) in wanted:
            figures = match[2].split()
            contentions += int(figures[_CONTENTIONS])
            acquisitions += int(figures[_ACQUISITIONS])
    return Counts(acquisitions, contentions)
