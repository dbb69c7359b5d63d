# SPDX-License-Identifier: Apache-2.0
"""Ranges of settings: a value outside its range is refused with one line that names both."""

from collections.abc import Mapping

from cachepilot.errors import InputError

Ranges = Mapping[str, tuple[float, float]]
"""The least and the greatest value of each setting, by its name."""


def check_ranges(section: str, settings: object, ranges: Ranges) -> None:
    """Raise InputError for the first setting that is out of its range."""
    for name, (low, high) in ranges.items():
        value = getattr(settings, name)
        if not low <= value <= high:
            allowed = f"allowed: {low:g} to {high:g}"
            raise InputError(f"{section}: {name}: {value} is out of range ({allowed})")
