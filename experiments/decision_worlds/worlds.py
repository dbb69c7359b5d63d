# SPDX-License-Identifier: Apache-2.0
"""Worlds whose workload does not change: no effect, wrong predictions, a true gain."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.decision_worlds.counts import Runs, everyone, rate, share, worst_and_median
from experiments.decision_worlds.nodes import START_S, Course, Node, play_all
from experiments.decision_worlds.tenants import CORRELATED, FIXED, WHITE, Effect, Kind, regime
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row

from cachepilot.domain.decisions import Event
from cachepilot.sense.counterfactuals import DEFAULT

NOISES = {"white": WHITE, "correlated": CORRELATED, "fixed": FIXED}
POINTS = 0.05
MISPREDICTED = "sieve"
WRONG = {
    "harm_5": Effect(true=POINTS, told=-POINTS),
    "harm_1": Effect(true=0.01, told=-POINTS),
    "no_gain": Effect(true=0.0, told=-POINTS),
}
SHARE_GOAL_PCT = 1.0
LOSS_GOAL_PCT = 2.0
READ_MORE = "pages more than"
"""Part of the reason for the rollback of a policy that reads more than the one before."""


@dataclass(frozen=True)
class Sizes:
    """How much is played: nodes per world, and seconds of each."""

    alike: int = 12
    mispredicted: int = 6
    flips: int = 3
    interrupted: int = 4
    seconds: int = 600


def play_kind(kind: Kind, nodes: int, seconds: int, first_seed: int = 1) -> Runs:
    """Play this many nodes with tenants of one kind."""
    seeds = range(first_seed, first_seed + nodes)
    return play_all([Node(seed, (kind,), seconds) for seed in seeds])


def _is_away(course: Course) -> bool:
    return course.last != DEFAULT


def _false_rollbacks(course: Course) -> int:
    return sum(READ_MORE in one.why for one in course.told(Event.REVERTED))


def _loss(name: str, runs: Runs, goal: float | None = None) -> list[Row]:
    values = [course.loss_pct for course in everyone(runs)]
    reference = "throughput of a tenant against the default, swaps included"
    metric = f"autopilot.worlds.{name}.loss_pct"
    return worst_and_median(metric, values, "%", goal=goal, reference=reference)


def alike(sizes: Sizes) -> Sequence[Row]:
    """Play policies that are all alike, and are predicted to be, except for sampling errors."""
    rows: list[Row] = []
    for noise, kept in NOISES.items():
        runs = play_kind(Kind("alike", kept=kept), sizes.alike, sizes.seconds)
        name = f"no_effect.{noise}"
        found = f"autopilot.worlds.{name}"
        rows += [
            share(f"{found}.share_pct", runs, _is_away, SHARE_GOAL_PCT),
            rate(f"{found}.false_changes", runs, lambda one: one.changes_away, "changes"),
            rate(
                f"{found}.false_confirmations",
                runs,
                lambda one: sum(it.to_policy != DEFAULT for it in one.told(Event.KEPT)),
                "confirmed",
            ),
            rate(f"{found}.false_rollbacks", runs, _false_rollbacks, "for a loss that is not"),
            *_loss(name, runs),
        ]
        say(f"{name}: {rows[-6].value:.3g}% away, {rows[-5].value:.4g} changes per 1,000 h")
    return rows


def mispredicted(sizes: Sizes) -> Sequence[Row]:
    """Play one policy that is predicted to miss 5 points less, and misses more or the same."""
    rows: list[Row] = []
    for name, effect in WRONG.items():
        kind = Kind(name, (regime(**{MISPREDICTED: effect}),))
        runs = play_kind(kind, sizes.mispredicted, sizes.seconds)
        rows += [
            share(f"autopilot.worlds.{name}.share_pct", runs, _is_away, SHARE_GOAL_PCT),
            *_loss(name, runs, LOSS_GOAL_PCT),
        ]
        worst, middle = (row.value for row in rows[-2:])
        say(f"{name}: {rows[-3].value:.3g}% on it, loss {worst:.3g}% worst, {middle:.3g}% median")
    return rows


def _reached(course: Course) -> float:
    """Return the intervals until the policy that gains is in force; all of them if it never is."""
    if MISPREDICTED not in course.policies:
        return float(course.seconds)
    return float(course.policies.index(MISPREDICTED))


def _confirmed(course: Course) -> float:
    times = (one.time_s for one in course.told(Event.KEPT) if one.to_policy == MISPREDICTED)
    return next(times, START_S + course.seconds) - START_S


def _harvested(course: Course) -> float:
    return (course.done - course.default_done) / (course.best_done - course.default_done)


def gain(sizes: Sizes) -> Sequence[Row]:
    """Play one policy that truly saves 5 points, to show that the decider is not merely idle."""
    kind = Kind("gain", (regime(**{MISPREDICTED: Effect(-POINTS, -POINTS)}),))
    runs = play_kind(kind, sizes.mispredicted, sizes.seconds)
    tenants = everyone(runs)
    reached, confirmed = map(_reached, tenants), map(_confirmed, tenants)
    never = "; those of whom it never is count with the whole run"
    harvest = "of the throughput that the policy gives from the first interval"
    found = "autopilot.worlds.gain"
    rows = [
        share(f"{found}.share_pct", runs, lambda one: one.last == MISPREDICTED),
        *worst_and_median(f"{found}.in_force", list(reached), "intervals", reference=never[2:]),
        *worst_and_median(f"{found}.confirmed", list(confirmed), "intervals", reference=never[2:]),
        *worst_and_median(
            f"{found}.harvested", list(map(_harvested, tenants)), "ratio", "higher",
            reference=harvest,
        ),
        rate(
            f"{found}.false_rollbacks",
            runs,
            lambda one: sum(it.to_policy == MISPREDICTED for it in one.told(Event.REVERTED)),
            "rollbacks",
        ),
    ]  # fmt: skip
    say(f"gain: {rows[0].value:.3g}% on it, after {rows[2].value:g} intervals (median)")
    return rows
