# SPDX-License-Identifier: Apache-2.0
"""Shortens long names for narrow columns so that they stay distinct."""

from collections.abc import Callable, Sequence
from itertools import pairwise

CUT = "…"
LEAST_COLUMNS = 8
"""Narrower columns could not contain both the mark and the part that distinguishes two names."""


def _end(name: str, width: int) -> str:
    return CUT + name[len(name) - width + 1 :]


def _middle(head: int) -> Callable[[str, int], str]:
    return lambda name, width: name[:head] + CUT + name[len(name) - (width - head - 1) :]


def _around(at: int) -> Callable[[str, int], str]:
    """Return a function that keeps the part of a name around a position."""

    def cut(name: str, width: int) -> str:
        start = max(0, min(at - width // 2, len(name) - width + 2))
        found = (CUT if start else "") + name[start:]
        return found if len(found) <= width else found[: width - 1] + CUT

    return cut


def _first_difference(names: Sequence[str]) -> int:
    """Return the largest position up to which two of the names agree."""
    ordered = sorted(names)
    found = 0
    for one, other in pairwise(ordered):
        alike = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
        found = max(found, min(len(one), len(other)) if alike is None else alike)
    return found


def shortened(names: Sequence[str], width: int) -> dict[str, str]:
    """Return each name in at most `width` columns (at least LEAST_COLUMNS), all distinct.

    The ends of names are kept if these differ, otherwise the beginning and the end, otherwise the
    part around the position where they differ. If no cut distinguishes them, they are numbered.
    """
    width = max(width, LEAST_COLUMNS)
    known = list(dict.fromkeys(names))
    long = [name for name in known if len(name) > width]
    whole = {name: name for name in known if len(name) <= width}
    at = _first_difference(long) if long else 0
    ways = [_end, *(_middle(head) for head in (width // 3, width // 2, width - 4)), _around(at)]
    for way in ways:
        found = whole | {name: way(name, width) for name in long}
        if len(set(found.values())) == len(known):
            return found
    return whole | _numbered(long, width, set(whole))


def _numbered(long: Sequence[str], width: int, taken: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    number = 0
    for name in long:
        while True:
            number += 1
            mark = f"{CUT}{number}"
            shown = name[: width - len(mark)] + mark
            if shown not in taken:
                break
        found[name] = shown
        taken.add(shown)
    return found
