# SPDX-License-Identifier: Apache-2.0
"""Sizes: the three ways to write one, rounding, and what is refused."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachepilot.errors import InputError
from cachepilot.sizes import (
    PAGE_BYTES,
    UNITS_BYTES,
    human_bytes,
    human_pages,
    parse_bytes,
    parse_requests,
    parse_size,
    parse_sizes,
)

FOOTPRINT = 1 << 40
REFUSED = (
    *("", ",", "0", "0.0", "0%", "1.5", "101%", "-1", "-0.1", "1e-3", "nan", "inf", "0x10"),
    *("16MB", "16miB", "4k", "4095B", "1KiB", "0MiB", "1.2.3", "10 %%", "\u0661\u0662"),
)


@given(st.integers(1, FOOTPRINT))
def test_bare_integer_counts_pages(pages: int) -> None:
    assert parse_size(str(pages)).resolve_pages(FOOTPRINT, "t") == pages


@given(st.integers(1, 9999), st.integers(1, FOOTPRINT))
def test_share_rounds_half_up_and_to_one_page(per_myriad: int, footprint: int) -> None:
    size = parse_size(f"0.{per_myriad:04}")
    exact = Fraction(per_myriad, 10_000) * footprint
    pages = size.resolve_pages(footprint, "t")
    assert 1 <= pages <= footprint
    assert pages == 1 or abs(pages - exact) <= Fraction(1, 2)
    assert size.resolve_pages(footprint, "t") == parse_size(
        f"{per_myriad // 100}.{per_myriad % 100:02}%"
    ).resolve_pages(footprint, "t")


@given(st.integers(1, 1000), st.sampled_from(sorted(UNITS_BYTES)))
def test_bytes_round_down_to_pages(count: int, unit: str) -> None:
    whole, rest = divmod(count * UNITS_BYTES[unit], PAGE_BYTES)
    if whole == 0:
        with pytest.raises(InputError):
            parse_size(f"{count}{unit}")
    else:
        assert parse_size(f"{count}{unit}").pages == whole
        assert 0 <= rest < PAGE_BYTES


@pytest.mark.parametrize(
    ("text", "footprint", "pages"),
    [
        ("0.10", 135, 14),
        ("0.3", 135, 41),
        ("0.01", 76349, 763),
        ("30%", 76349, 22905),
        ("1.0", 751, 751),
        ("100%", 751, 751),
        ("0.0001", 10, 1),
        ("0.5MiB", 9999, 128),
        ("16MiB", 4096, 4096),
        (" 2GiB ", 1 << 20, 524288),
    ],
)
def test_examples_of_sizes(text: str, footprint: int, pages: int) -> None:
    assert parse_size(text).resolve_pages(footprint, "t") == pages


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^size ") as caught:
        parse_sizes(text)
    assert "\n" not in str(caught.value)


@given(st.text())
def test_any_text_is_a_size_or_refused(text: str) -> None:
    try:
        size = parse_size(text)
    except InputError:
        return
    assert (size.share is None) != (size.pages is None)


@given(st.integers(1, FOOTPRINT))
def test_larger_than_the_footprint_is_refused(footprint: int) -> None:
    with pytest.raises(InputError, match=rf"allowed: 1 to {footprint} pages"):
        parse_size(str(footprint + 1)).resolve_pages(footprint, "some.u64")


def test_human_readable_sizes() -> None:
    assert human_bytes(4096) == "4 KiB"
    assert human_bytes(1536 << 10) == "1.5 MiB"
    assert human_bytes(12) == "12 B"
    assert human_pages(1) == "1 page (4 KiB)"
    assert human_pages(4096) == "4,096 pages (16 MiB)"


@pytest.mark.parametrize(
    ("text", "amount"),
    [("0", 0), ("4096", 4096), ("4KiB", 4096), (" 1.5 KiB ", 1536), ("2GiB", 2 << 30)],
)
def test_bytes_are_whole_numbers_with_a_unit_or_without(text: str, amount: int) -> None:
    assert parse_bytes(text) == amount


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "4MB", "4096 pages", "0.3KiB", "1.5", "50%", "1e3"]
)
def test_sizes_that_are_not_bytes_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="not whole bytes"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("12", 12),
        ("99999", 99999),
        ("0.2", 200),
        ("20%", 200),
        ("0.0", 0),
        ("99.99%", 999),
    ],
)
def test_requests_are_a_number_or_a_share(text: str, count: int) -> None:
    assert parse_requests(text, 1000) == count


@pytest.mark.parametrize("text", ["", "x", "-1", "1.0", "100%", "200%", "1.5", "5KiB", "1 2"])
def test_counts_that_are_neither_number_nor_share_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a number of requests"):
        parse_requests(text, 1000)
