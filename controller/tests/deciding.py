# SPDX-License-Identifier: Apache-2.0
"""One tenant under the decider, with the miss ratios of its policies, true and predicted."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.state import Interval, PolicyState
from cachepilot.decide.step import step_all
from cachepilot.domain.decisions import Decision, Event
from cachepilot.sense.counterfactuals import DEFAULT, Counterfactual

GROUPS = 16
ACCESSES = 10_000.0
"""Accesses in an interval of one second."""
CACHE_PAGES = 4000.0
COST = 1000.0
"""Pages that a swap reads again: the cost of a change."""
RATE = 0.1


def counterfactual(
    misses: Mapping[str, float],
    in_force: str,
    noise: np.random.Generator | None = None,
    cache_pages: float = CACHE_PAGES,
    tells_cost: bool = True,
) -> Counterfactual:
    """Return the predicted misses of an interval, by policy.

    With `noise`, the misses of each group scatter as in a sample.
    """
    names = tuple(misses)
    means = np.array([misses[name] for name in names])[:, None] / GROUPS
    found = np.repeat(means, GROUPS, axis=1)
    if noise is not None:
        found = noise.poisson(found * RATE) / RATE
    cost = COST / CACHE_PAGES * cache_pages if tells_cost else 0.0
    reread = np.array([0.0 if name == in_force else cost for name in names])
    return Counterfactual(names, found, reread, cache_pages, RATE)


def unchanged(seen: Interval) -> Interval:
    return seen


def scattering(random: np.random.Generator, share: float) -> Callable[[Interval], Interval]:
    """Return a function that scatters the measured misses of an interval by this relative share."""

    def seen_as(seen: Interval) -> Interval:
        misses = seen.misses * (1 + share * random.standard_normal())
        return replace(seen, misses=max(0.0, misses))

    return seen_as


@dataclass
class World:
    """A tenant with true miss ratios `truth`, predicted as `told` where that differs.

    An order takes effect in the next interval. The exceptions are the policies in `refusing`,
    which the node refuses, and those in `ignoring`, for which the node never answers. A swap
    reads `anew` pages again.
    """

    truth: dict[str, float]
    told: dict[str, float] = field(default_factory=dict)
    seed: int | None = None
    config: DecideConfig = field(default_factory=DecideConfig)
    state: PolicyState = field(default_factory=PolicyState)
    in_force: str = DEFAULT
    refusing: frozenset[str] = frozenset()
    ignoring: frozenset[str] = frozenset()
    may_change: bool = True
    is_held: bool = False
    regime: int = 0
    miss_time_share: float = 1.0
    cache_pages: float = CACHE_PAGES
    anew: float = COST
    anew_s: float = 0.0
    """Time in which the reads after a swap fall by a factor e; 0 if all come at once."""
    tells_cost: bool = True
    load: float = 1.0
    """Factor of `ACCESSES`."""
    elapsed_s: float = 1.0
    """Seconds of an interval."""
    seen_as: Callable[[Interval], Interval] = unchanged
    """Returns an interval as the decider is shown it."""
    time_s: float = 0.0
    lost: float = 0.0
    """Pages read beyond those that the default would have read."""
    swaps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._owed = 0.0
        self._pages = None if self.seed is None else np.random.default_rng(self.seed)
        self._allowed = frozenset(self.truth)

    def allow(self, policies: Sequence[str]) -> None:
        """Allow only these policies from now on."""
        self._allowed = frozenset(policies)

    def interval(self) -> Interval:
        """Return the next interval. An order takes effect at its beginning."""
        wanted, refused = self.state.wanted, None
        if wanted is not None and wanted in self.refusing:
            refused = f"{wanted} does not load"
        elif wanted is not None and wanted not in {self.in_force, *self.ignoring}:
            self.in_force = wanted
            self.swaps.append(wanted)
            self._owed = self.anew
        self.time_s += self.elapsed_s
        anew = self._owed * (1.0 - math.exp(-self.elapsed_s / self.anew_s) if self.anew_s else 1.0)
        self._owed -= anew
        accesses = self.load * ACCESSES * self.elapsed_s
        misses = self.truth[self.in_force] * accesses + anew
        self.lost += misses - self.truth[DEFAULT] * accesses
        told = {name: one * accesses for name, one in (self.truth | self.told).items()}
        seen = Interval(
            time_s=self.time_s,
            elapsed_s=self.elapsed_s,
            in_force=self.in_force,
            limit_bytes=int(self.cache_pages) * 4096,
            allowed=self._allowed,
            may_change=self.may_change,
            is_held=self.is_held,
            regime=self.regime,
            ops=accesses,
            accesses=accesses,
            misses=misses,
            miss_time_share=self.miss_time_share,
            counterfactual=counterfactual(
                told, self.in_force, self._pages, self.cache_pages, self.tells_cost
            ),
            refused=refused,
        )
        return self.seen_as(seen)

    def run(self, intervals: int) -> list[Decision]:
        """Return the decisions of so many intervals."""
        return run_all([self], intervals)[0]

    def learn(self, intervals: int = 60) -> "World":
        """Run so many intervals in which nothing may change, and return this world."""
        return learn_all([self], intervals)[0]

    def until(self, event: Event, intervals: int = 300) -> Decision:
        """Run until this is decided. Raises AssertionError if it is not."""
        return until_all([self], event, intervals)[0]


def step(state: PolicyState, seen: Interval, config: DecideConfig) -> list[Decision]:
    """Return the decisions on one tenant in one interval."""
    return step_all([state], [seen], config)[0]


def run_all(worlds: Sequence[World], intervals: int) -> list[list[Decision]]:
    """Return the decisions of each world in so many intervals.

    All worlds must have the same configuration. Many take hardly longer than one.
    """
    config = worlds[0].config
    assert all(world.config == config for world in worlds)
    states, found = [world.state for world in worlds], [list[Decision]() for _ in worlds]
    for _ in range(intervals):
        decided = step_all(states, [world.interval() for world in worlds], config)
        for i, decisions in enumerate(decided):
            found[i] += decisions
    return found


def learn_all(worlds: Sequence[World], intervals: int = 60) -> list[World]:
    """Run so many intervals in which nothing may change, and return the worlds."""
    for world in worlds:
        world.is_held = True
    assert run_all(worlds, intervals) == [[]] * len(worlds)
    for world in worlds:
        world.is_held = False
    return list(worlds)


def until_all(worlds: Sequence[World], event: Event, intervals: int = 300) -> list[Decision]:
    """Run each world until this is decided. Raises AssertionError for a world where it is not."""
    found: dict[int, Decision] = {}
    for _ in range(intervals):
        others = [i for i in range(len(worlds)) if i not in found]
        if not others:
            break
        for i, decided in zip(others, run_all([worlds[i] for i in others], 1), strict=True):
            if event in kinds(decided):
                found[i] = decided[kinds(decided).index(event)]
    missing = [i for i in range(len(worlds)) if i not in found]
    assert not missing, f"not {event} in {intervals} intervals: worlds {missing}"
    return [found[i] for i in range(len(worlds))]


def saving(**more: float) -> World:
    """Return a world in which `lru` truly saves two fifths of the misses."""
    return World({"default": 0.5, "lru": 0.3} | more).learn()


def promising(told: float = 0.3) -> World:
    """Return a world in which `lru` saves nothing, although savings are predicted."""
    return World({"default": 0.5, "lru": 0.5}, told={"lru": told}).learn()


def in_lru(**truth: float) -> World:
    """Return a world under a confirmed `lru`. Nothing was measured under the default and `mru`."""
    shares = {"default": 0.6, "lru": 0.4, "mru": 0.4} | truth
    return World(shares, in_force="lru", state=PolicyState(in_force="lru")).learn()


def kinds(found: list[Decision]) -> list[Event]:
    return [one.event for one in found]
