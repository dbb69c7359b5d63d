# SPDX-License-Identifier: Apache-2.0
"""The JSON object of every refusal."""

from cachepilot.api.shapes.shape import Shape


class ErrorShape(Shape):
    """One line: what was refused, and what is allowed."""

    error: str


ACCEPTABLE = " (accept_missed_slos: true accepts it)"
"""The end of the error for an order that misses an SLO: with this key, the order is executed."""
