# SPDX-License-Identifier: Apache-2.0
"""Plays the same runs with and without interruptions, and counts the changes due to them."""

from collections.abc import Sequence

from experiments.decision_worlds.counts import Runs, everyone, worst_and_median
from experiments.decision_worlds.flips import flipping
from experiments.decision_worlds.interruptions import DOES
from experiments.decision_worlds.nodes import Course, Node, play_all
from experiments.decision_worlds.tenants import WHITE, Effect, Kind, regime
from experiments.decision_worlds.worlds import MISPREDICTED, POINTS, Sizes
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row

GAIN = regime(**{MISPREDICTED: Effect(-POINTS, -POINTS)})
KINDS = (
    Kind("alike-exact", kept=None),
    Kind("alike", kept=WHITE),
    Kind("gain-exact", (GAIN,), kept=None),
    Kind("gain", (GAIN,), kept=WHITE),
    flipping(120, True, kept=None),
)
"""Kinds of the tenants of each node, in turn. Counterfactuals of two of the kinds have noise."""


def _played(name: str, sizes: Sizes) -> Runs:
    nodes = range(1, 1 + sizes.interrupted)
    return play_all([Node(seed, KINDS, sizes.seconds, name) for seed in nodes])


def more(with_it: Sequence[Course], without: Sequence[Course]) -> tuple[int, int]:
    """Return the sums of additional and of missing changes over the tenants.

    A tenant has additional changes if it changes more often `with_it`, missing ones if less often.
    """
    differences = [a.changes - b.changes for a, b in zip(with_it, without, strict=True)]
    return sum(max(0, one) for one in differences), sum(max(0, -one) for one in differences)


def _row(
    metric: str, pairs: Sequence[tuple[Sequence[Course], Sequence[Course]]], is_exact: bool
) -> Row:
    """Return a row of additional changes; the spread is that of the nodes.

    If counterfactuals have noise, the missing changes of tenants that have fewer are subtracted,
    since chance causes both.
    """
    nodes = [more(*pair) for pair in pairs]
    found = [above - (0 if is_exact else below) for above, below in nodes]
    before = sum(course.changes for _, run in pairs for course in run)
    above, below = (sum(values) for values in zip(*nodes, strict=True))
    return Row(
        metric,
        sum(found),
        "changes",
        goal=0.0,
        reference=f"{above} more by some tenants, {below} fewer by others; without it",
        reference_value=before,
        runs=len(nodes),
        spread=(min(found), max(found)),
    )


def _of(runs: Runs, is_exact: bool) -> list[list[Course]]:
    return [[one for one in run if (one.kind.kept is None) == is_exact] for run in runs]


def _rows(name: str, with_it: Runs, without: Runs) -> list[Row]:
    found = f"autopilot.worlds.{name}"
    rows = []
    for is_exact, where in ((True, "exact"), (False, "noisy")):
        pairs = list(zip(_of(with_it, is_exact), _of(without, is_exact), strict=True))
        rows.append(_row(f"{found}.changes_more.{where}", pairs, is_exact))
    if name != "load_steps":
        pairs_of_all = zip(everyone(with_it), everyone(without), strict=True)
        losses = [100 * (1 - one.done / other.done) for one, other in pairs_of_all]
        reference = "throughput of a tenant against the same run without it"
        rows += worst_and_median(f"{found}.loss_pct", losses, "%", reference=reference)
    return rows


def measure(sizes: Sizes) -> Sequence[Row]:
    """Play gaps, clock steps, restarts and load steps, each compared with runs without them."""
    without = _played("", sizes)
    say(f"paired: {sum(one.changes for one in everyone(without))} changes without interruptions")
    rows: list[Row] = []
    for name in filter(None, DOES):
        found = _rows(name, _played(name, sizes), without)
        rows += found
        say(f"{name}: {found[0].value:g} changes more where exact, {found[1].value:g} where noisy")
    return rows
