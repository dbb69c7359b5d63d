# SPDX-License-Identifier: Apache-2.0
"""Allocators: pure functions from an allocation problem to policy and memory of every tenant."""

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
    """The allocator called `name`; raises InputError that lists the names there are."""
    if name not in ALLOCATORS:
        names = ", ".join(ALLOCATORS)
        raise InputError(f"config: allocator: {name!r} is not known (allowed: {names})")
    return ALLOCATORS[name]
