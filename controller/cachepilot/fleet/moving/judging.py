# SPDX-License-Identifier: Apache-2.0
"""Sequential tests of a move: whether SLOs are met, or the throughput is kept, window by window.

A window is one interval of the controller, or several for a latency. A tenant without an SLO has a
`keep` check: its mean throughput must not fall below a share of the mean before the move. SLOs are
judged by Wald's sequential probability ratio test (Annals of Mathematical Statistics 16, 1945). The
hypothesis that an SLO is met in `GOAL` of the windows is tested against `POOR`. With both error
probabilities at `ERROR`, 15 met windows in a row accept an SLO, and two misses among the first
windows reject it.
"""

import math
from dataclasses import replace

from cachepilot.domain.moving import KEEP, Check, Verdict
from cachepilot.domain.slos import GOAL

POOR = 0.8
ERROR = 0.05
BOUND = math.log((1 - ERROR) / ERROR)
MET, MISSED = math.log(POOR / GOAL), math.log((1 - POOR) / (1 - GOAL))
WINDOWS = math.ceil(BOUND / -MET)
"""Windows that suffice for an SLO if all are met; also the fewest windows for a mean throughput."""
WINDOWS_MAX = 4 * WINDOWS
"""A check that is undecided after this many windows counts as missed."""
ERRORS = 2.0
"""A mean this many standard errors below its target is missed before WINDOWS_MAX."""


def take(check: Check, met: bool | None, ops: float | None) -> Check:
    """Add one window to a check; a window without a measurement is not counted.

    `met` is the result of an SLO, `ops` the operations/s; None means not measured.
    """
    if check.verdict is not Verdict.OPEN or (ops is None if check.kind == KEEP else met is None):
        return check
    windows = check.windows + 1
    after = check.after_ops
    if ops is not None:
        after = ops if after is None else after + (ops - after) / windows
    if check.kind == KEEP:
        value = float(ops or 0.0)
        is_met = value >= check.target
        evidence = check.evidence + value * value
    else:
        is_met = bool(met)
        evidence = check.evidence + (MET if is_met else MISSED)
    taken = replace(
        check, windows=windows, met=check.met + is_met, after_ops=after, evidence=evidence
    )
    return replace(taken, verdict=_kept(taken) if check.kind == KEEP else _of_slo(taken))


def _of_slo(check: Check) -> Verdict:
    if check.evidence >= BOUND:
        return Verdict.MISSED
    if check.evidence <= -BOUND:
        return Verdict.MET
    return Verdict.MISSED if check.windows >= WINDOWS_MAX else Verdict.OPEN


def _kept(check: Check) -> Verdict:
    """Judge the mean; if it is below the target by less than its error, wait for more windows."""
    mean, count = check.after_ops or 0.0, check.windows
    if count < WINDOWS:
        return Verdict.OPEN
    if mean >= check.target:
        return Verdict.MET
    variance = max(0.0, check.evidence / count - mean * mean)
    is_below = mean + ERRORS * math.sqrt(variance / count) < check.target
    return Verdict.MISSED if is_below or count >= WINDOWS_MAX else Verdict.OPEN
