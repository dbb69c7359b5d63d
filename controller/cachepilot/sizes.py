# SPDX-License-Identifier: Apache-2.0
"""Cache sizes as people write them: a share of the footprint, pages, or bytes."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from cachepilot.errors import InputError

PAGE_BYTES = 4096
UNITS_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_GREATEST_FIRST = tuple(reversed(UNITS_BYTES.items()))
PAGES = "pages"
ALLOWED = "a share like 0.10 or 10%, pages like 4096 or 4096pages, or bytes like 16MiB"

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
# Most commands need sizes but no arrays of them, and importing numpy takes longer than they do.
Bytes = TypeVar("Bytes", int, "npt.NDArray[np.int64]")

_NUMBER = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>%|[A-Za-z]*)", re.ASCII)


@dataclass(frozen=True)
class Size:
    """A cache size as given: `share` of the footprint, 0 < share <= 1, or `pages` >= 1."""

    text: str
    share: Fraction | None = None
    pages: int | None = None

    def resolve_pages(self, footprint_pages: int, trace: str) -> int:
        """Return the size in pages for a trace of `footprint_pages` distinct pages.

        A share is rounded half up, to at least one page. Raises InputError if the size is larger
        than the footprint.
        """
        if self.share is not None:
            return max(1, int(self.share * footprint_pages + Fraction(1, 2)))
        pages = self.pages or 0
        if pages > footprint_pages:
            raise InputError(
                f"size {self.text}: {pages} pages is larger than the footprint of {trace} "
                f"(allowed: 1 to {footprint_pages} pages)"
            )
        return pages


def parse_size(text: str, allowed: str = ALLOWED) -> Size:
    """Parse one size; raise InputError naming the allowed forms, those in `allowed`.

    A number with `%`, or with a decimal point and no unit, is a share. An integer without a unit or
    with `pages` counts pages of 4 KiB. A number with KiB, MiB, GiB or TiB counts bytes, rounded
    down to whole pages.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise InputError(f"size {text!r}: not a size (allowed: {allowed})")
    digits, unit = match["number"], match["unit"]
    number = Fraction(digits)
    if unit == "%" or (not unit and "." in digits):
        share = number / 100 if unit == "%" else number
        if not 0 < share <= 1:
            raise InputError(
                f"size {text}: a share must be in (0, 1], that is more than 0% and at most 100%"
            )
        return Size(text, share=share)
    if unit and unit not in (PAGES, *UNITS_BYTES):
        units = ", ".join((*UNITS_BYTES, PAGES))
        raise InputError(f"size {text}: unknown unit {unit!r} (allowed: {units})")
    if unit == PAGES and number.denominator != 1:
        raise InputError(f"size {text}: not whole pages (allowed: like 4096pages)")
    pages = int(number * UNITS_BYTES.get(unit, PAGE_BYTES)) // PAGE_BYTES
    if pages < 1:
        raise InputError(f"size {text}: at least one page of {PAGE_BYTES} bytes is needed")
    return Size(text, pages=pages)


def parse_bytes(text: str) -> int:
    """Parse a number of bytes: a whole number, without a unit or with KiB, MiB, GiB or TiB.

    Raises InputError naming the allowed forms.
    """
    match = _NUMBER.fullmatch(text.strip())
    scale = {"": 1, **UNITS_BYTES}.get(match["unit"]) if match else None
    amount = None if match is None or scale is None else Fraction(match["number"]) * scale
    if amount is None or amount.denominator != 1:
        units = ", ".join(UNITS_BYTES)
        raise InputError(
            f"{text!r}: not whole bytes (allowed: a number like 4096, or with {units})"
        )
    return int(amount)


def parse_requests(text: str, of_requests: int) -> int:
    """Parse a number of requests, or a share of `of_requests` like 0.2 or 20%, rounded down.

    Raises InputError naming the allowed forms.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is not None and match["unit"] in ("", "%"):
        number = Fraction(match["number"])
        if match["unit"] == "%" or "." in match["number"]:
            share = number / 100 if match["unit"] else number
            if share < 1:
                return int(share * of_requests)
        else:
            return int(number)
    raise InputError(
        f"{text!r}: not a number of requests, nor a share of them below 1 like 0.2 or 20%"
    )


def parse_sizes(text: str) -> list[Size]:
    """Parse a comma-separated list of sizes, in the given order."""
    return [parse_size(part) for part in text.split(",")]


def pages_down(amount_bytes: Bytes) -> Bytes:
    """Round bytes (one amount or an array) down to whole pages."""
    return amount_bytes // PAGE_BYTES * PAGE_BYTES


def pages_up(amount_bytes: Bytes) -> Bytes:
    """Round bytes (one amount or an array) up to whole pages."""
    return -(-amount_bytes // PAGE_BYTES) * PAGE_BYTES


def human_bytes(amount_bytes: float) -> str:
    """Return bytes in the largest binary unit in which they are at least one: `29.8 MiB`."""
    for unit, scale in _GREATEST_FIRST:
        if amount_bytes >= scale:
            value = amount_bytes / scale
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
    return f"{amount_bytes:.0f} B"


def human_pages(pages: int) -> str:
    """Return a size in pages together with its bytes: `7,635 pages (29.8 MiB)`."""
    unit = "page" if pages == 1 else "pages"
    return f"{pages:,} {unit} ({human_bytes(pages * PAGE_BYTES)})"
