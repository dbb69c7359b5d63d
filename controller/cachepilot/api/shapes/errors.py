# SPDX-License-Identifier: Apache-2.0
"""The JSON object of every refusal."""

from cachepilot.api.shapes.shape import Shape


class RangeShape(Shape):
    """A number that was refused, and the range that is allowed."""

    key: str
    """The number's name in the request."""
    value: int
    least: int
    most: int


class ErrorShape(Shape):
    """One line: what was refused, and what is allowed."""

    error: str
    range: RangeShape | None = None
    """For a number out of range whose line has rounded sizes; left out otherwise."""


ACCEPTABLE = " (accept_missed_slos: true accepts it)"
"""The end of the error for an order that misses an SLO: with this key, the order is executed."""
