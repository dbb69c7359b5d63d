# SPDX-License-Identifier: Apache-2.0
"""Allocators: pure functions from an allocation problem to every tenant's policy and limit."""

from collections.abc import Mapping

from cachepilot.errors import InputError
from cachepilot.plan.allocators import annealing, optimal, proportional, static
from cachepilot.plan.allocators.allocator import Allocator

ALLOCATORS: Mapping[str, Allocator] = {
    "annealing": annealing.allocate,
    "optimal": optimal.allocate,
    "proportional": proportional.allocate,
    "static": static.allocate,
}


def find(name: str) -> Allocator:
    """Return the allocator called `name`; an InputError lists the names that exist."""
    if name not in ALLOCATORS:
        names = ", ".join(ALLOCATORS)
        raise InputError(f"config: allocator: {name!r} is not known (allowed: {names})")
    return ALLOCATORS[name]
