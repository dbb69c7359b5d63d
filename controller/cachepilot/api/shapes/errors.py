# SPDX-License-Identifier: Apache-2.0
"""What every refusal looks like."""

from cachepilot.api.shapes.shape import Shape


class ErrorShape(Shape):
    """One line: what was refused, and what is allowed."""

    error: str


ACCEPTABLE = " (accept_missed_slos: true accepts it)"
"""Ends the error of an order that misses an SLO: repeated with that key it is carried out."""
