# SPDX-License-Identifier: Apache-2.0
"""Pins: settings that an operator fixed for single tenants, as objectives that a plan obeys."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cachepilot.domain.names import cgroup_path, node_name, plain
from cachepilot.domain.objectives.objective import Fixed, Objective, Objectives
from cachepilot.domain.units import BYTES_MAX
from cachepilot.errors import InputError, OutOfRangeError
from cachepilot.sizes import PAGE_BYTES, PAGES, human_bytes


@dataclass(frozen=True)
class Pin:
    """What is fixed for one tenant, on one node or on all.

    `until_s` is when the pin expires, in seconds since 1970; None if it lasts until it is unpinned.
    `rollout` is the number of the rollout that pinned the tenant for its move; None if an operator
    did. Names have the form of `domain.names`; an invalid one raises InputError.
    """

    cgroup: str
    node: str | None = None
    policy: str | None = None
    limit_bytes: int | None = None
    until_s: float | None = None
    rollout: int | None = None

    def __post_init__(self) -> None:
        vars(self)["cgroup"] = cgroup_path(self.cgroup)
        if self.node is not None:
            node_name(self.node)
        if self.policy is not None:
            plain(self.policy)


@dataclass(frozen=True)
class Before:
    """The objectives and pins before a change by a person, at `stored_s` seconds since 1970.

    `change` is the number of the change, `what` says what it changed.
    """

    change: int
    stored_s: float
    what: str
    objectives: Objectives
    pins: tuple[Pin, ...]


def beside(stated: Iterable[Pin], held: Iterable[Pin]) -> list[Pin]:
    """Return the pins of rollouts in `held` that still apply beside the `stated` pins.

    A pin of an operator for the same tenant, on that node or on all nodes, replaces them.
    """
    taken = {(pin.cgroup, pin.node) for pin in stated if pin.rollout is None}
    return [
        pin
        for pin in held
        if pin.rollout is not None
        and taken.isdisjoint({(pin.cgroup, pin.node), (pin.cgroup, None)})
    ]


def require_whole_pages(key: str, limit_bytes: int) -> None:
    """Raise InputError naming `key` unless a limit is whole pages, at least one."""
    if not PAGE_BYTES <= limit_bytes <= BYTES_MAX or limit_bytes % PAGE_BYTES:
        allowed = f"whole pages of {PAGE_BYTES} bytes, {PAGE_BYTES} to {BYTES_MAX}"
        raise InputError(f"{key}: {limit_bytes} (allowed: {allowed})")


def require_possible_limit(what: str, limit_bytes: int, least: int, most: int) -> None:
    """Raise OutOfRangeError, which begins with `what`, unless a node can apply a limit.

    `least` is what cannot be reclaimed, with a margin, and `most` the node's memory capacity, both
    in bytes and whole pages.
    """
    if limit_bytes < least:
        wrong = f"is below {human_bytes(least)}, what cannot be reclaimed and a margin"
    elif limit_bytes > most:
        wrong = f"is above {human_bytes(most)}, the node's memory capacity"
    elif limit_bytes % PAGE_BYTES:
        wrong = f"is {limit_bytes} bytes, which is not whole pages of {PAGE_BYTES} bytes"
    else:
        return
    # Rounded sizes may be outside of the range that they describe; pages are exact.
    allowed = f"{least // PAGE_BYTES}{PAGES} to {most // PAGE_BYTES}{PAGES}"
    between = f"{human_bytes(least)} to {human_bytes(most)}"
    told = f"{what}: limit {human_bytes(limit_bytes)} {wrong} (allowed: {allowed}: {between})"
    raise OutOfRangeError(told, "limit_bytes", limit_bytes, least, most)


def fixed(objective: Objective, cgroup: str, more: Fixed) -> Objective:
    """Return `objective` for one cgroup with `more` fixed.

    What `more` leaves open stays as it was fixed before.
    """
    before = objective.fixed or Fixed()
    policy = before.policy if more.policy is None else more.policy
    limit = before.limit_bytes if more.limit_bytes is None else more.limit_bytes
    until_s = before.until_s if more.until_s is None else more.until_s
    return replace(objective, pattern=cgroup, fixed=Fixed(policy, limit, until_s, more.is_over))


def with_pins(objectives: Objectives, pins: Sequence[Pin], node: str) -> Objectives:
    """Return the objectives with the pins that apply on `node`: those for it, and those for all.

    A pin for the node comes before one for all nodes, separately for policy and limit. Of several
    equal ones the last applies. Raises InputError for a limit that is not whole pages.
    """
    found: dict[str, Objective] = {one.pattern: one for one in reversed(objectives.pinned)}
    everywhere = [pin for pin in pins if pin.node is None]
    for pin in (*everywhere, *(pin for pin in pins if pin.node == node)):
        if pin.limit_bytes is not None:
            require_whole_pages(f"pin {pin.cgroup}: limit_bytes", pin.limit_bytes)
        base = found.get(pin.cgroup) or objectives.of(pin.cgroup)
        found[pin.cgroup] = fixed(base, pin.cgroup, Fixed(pin.policy, pin.limit_bytes, pin.until_s))
    return replace(objectives, pinned=tuple(found.values()))
