# SPDX-License-Identifier: Apache-2.0
"""Shortened names stay distinct."""

from hypothesis import given
from hypothesis import strategies as st

from cachepilot.cli.terminal.names import LEAST_COLUMNS, shortened

NAMES = st.lists(st.text("ab/-", min_size=1, max_size=60), unique=True, max_size=40)


@given(names=NAMES, width=st.integers(LEAST_COLUMNS, 40))
def test_cut_names_fit_and_differ(names: list[str], width: int) -> None:
    found = shortened(names, width)
    assert set(found) == set(names)
    assert all(len(shown) <= width for shown in found.values())
    assert len(set(found.values())) == len(names)
    assert all(found[name] == name for name in names if len(name) <= width)


def test_ends_are_kept_where_they_differ() -> None:
    pods = [f"/kubepods.slice/kubepods-burstable.slice/pod{i}" for i in range(3)]
    assert list(shortened(pods, 16).values()) == [f"…able.slice/pod{i}" for i in range(3)]


def test_beginning_and_end_are_kept_where_the_ends_are_alike() -> None:
    found = shortened([f"/{one}/a-long-service-name.service" for one in "ab"], 12)
    assert list(found.values()) == ["/a/a…service", "/b/a…service"]


def test_the_middle_is_kept_where_it_alone_differs() -> None:
    names = ["/" + "a" * 30 + one + "b" * 30 for one in "xyz"]
    found = shortened(names, 12)
    assert [next(char for char in shown if char in "xyz") for shown in found.values()] == [*"xyz"]
