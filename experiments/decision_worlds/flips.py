# SPDX-License-Identifier: Apache-2.0
"""Two regimes that alternate. In each, a different policy saves 10 points of miss ratio."""

from collections.abc import Sequence
from statistics import median

from experiments.decision_worlds.counts import everyone, worst_and_median
from experiments.decision_worlds.nodes import Course
from experiments.decision_worlds.tenants import Effect, Kind, regime
from experiments.decision_worlds.worlds import Sizes, play_kind
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row

POINTS = 0.10
FIRST, SECOND = "lirs", "wtinylfu"
EVERY_S = (30, 120)
BACK_GOAL = 3.0
SLOW_SECONDS = 960
"""Length of the slow runs: eight regimes."""


def flipping(every_s: int, is_told: bool, kept: float | None = 0.0) -> Kind:
    """Return the kind of tenants whose regimes alternate."""
    saves = Effect(-POINTS, -POINTS)
    regimes = (regime(**{FIRST: saves}), regime(**{SECOND: saves}))
    return Kind(f"flips{every_s}", regimes, kept, every_s, is_told)


def waits(course: Course) -> list[int]:
    """Return the intervals until the best policy is in force, per regime after the first round.

    If the policy never is in force, all intervals of the regime count.
    """
    kind, length = course.kind, course.kind.regime_s
    found = []
    for start in range(len(kind.regimes) * length, course.seconds, length):
        now = course.policies[start : start + length]
        best = kind.best(start)
        found.append(now.index(best) if best in now else len(now))
    return found


def measure(sizes: Sizes) -> Sequence[Row]:
    """Compare with the default and the best of each regime, and measure the delay of the best."""
    rows: list[Row] = []
    for every_s in EVERY_S:
        for is_told in (True, False):
            name = f"flips_{every_s}s" + ("" if is_told else ".untold")
            slow = sizes.seconds > 4 * EVERY_S[0] and every_s == EVERY_S[1]
            seconds = SLOW_SECONDS if slow else max(sizes.seconds, 2 * every_s + 10)
            runs = play_kind(flipping(every_s, is_told), sizes.flips, seconds)
            rows += _rows(f"autopilot.worlds.{name}", everyone(runs))
            of_default, of_best, back = (rows[i].value for i in (-5, -3, -1))
            say(f"{name}: {of_default:.3f} of default, {of_best:.3f} of best, back in {back:g}")
    return rows


def _rows(found: str, tenants: Sequence[Course]) -> list[Row]:
    ratios = [one.done / one.default_done for one in tenants]
    shares = [one.done / one.best_done for one in tenants]
    back = [float(wait) for one in tenants for wait in waits(one)]
    best = "throughput; the best policy of each regime, without swaps"
    payback = median(one.drawn.payback_s(POINTS) for one in tenants if one.drawn is not None)
    reference = "after the first round; a swap is made good for by so many intervals (median)"
    return [
        *worst_and_median(
            f"{found}.vs_default", ratios, "ratio", "higher", reference="throughput; the default"
        ),
        *worst_and_median(f"{found}.vs_best", shares, "ratio", "higher", reference=best),
        Row.of_runs(
            f"{found}.back",
            back,
            "intervals",
            goal=BACK_GOAL,
            reference=reference,
            reference_value=payback,
        ),
    ]
