# SPDX-License-Identifier: Apache-2.0
"""Records with a quick `__init__` behave as the frozen dataclasses that they are."""

from dataclasses import dataclass, field, replace

import pytest

from cachepilot.domain.snapshot import Demand, SnapshotError
from cachepilot.quick_records import quickly_made


@quickly_made
@dataclass(frozen=True)
class Point:
    """Two numbers; the second has a default."""

    x: int
    y: int = 7


def test_fields_defaults_and_names_are_those_of_the_dataclass() -> None:
    assert (Point(1).x, Point(1).y) == (1, 7)
    assert Point(y=2, x=1) == Point(1, 2)
    assert replace(Point(1), y=3) == Point(1, 3)
    assert hash(Point(1)) == hash(Point(1, 7))
    with pytest.raises(TypeError, match="missing 1 required"):
        Point()  # type: ignore[call-arg]


def test_checks_after_the_fields_still_run() -> None:
    with pytest.raises(SnapshotError, match="demand: service_us"):
        Demand(-1.0, 1.0)


def test_a_record_with_slots_has_no_dictionary() -> None:
    @quickly_made
    @dataclass(frozen=True, slots=True)
    class Slotted:
        x: int
        y: int = 7

    assert replace(Slotted(1), x=2) == Slotted(2, 7)
    assert not hasattr(Slotted(1), "__dict__")


def test_unsupported_classes_are_refused() -> None:
    @dataclass(frozen=True)
    class Filled:
        x: list[int] = field(default_factory=list)

    with pytest.raises(TypeError, match="Filled: x: must be a plain field"):
        quickly_made(Filled)
