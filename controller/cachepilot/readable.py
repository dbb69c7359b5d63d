# SPDX-License-Identifier: Apache-2.0
"""Numbers in sentences, as people read them."""


def number(value: float, digits: int = 3) -> str:
    """Whole, with its thousands apart, from 100 up; else with so many digits that count."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.{digits}g}"
