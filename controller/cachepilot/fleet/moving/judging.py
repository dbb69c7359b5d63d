# SPDX-License-Identifier: Apache-2.0
"""Whether an SLO is met after a move, by windows one after the other, and what one keeps without.

A window is an interval of the controller, or several for a latency. SLOs are judged by Wald's
sequential test (Annals of Mathematical Statistics 16, 1945): they are to be met in `GOAL` of the
windows, and one met in `POOR` of them is missed. With both errors at `ERROR`, 15 windows in a row
accept one, and two misses among the first windows refuse it.
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
"""Windows that suffice where all are met; those that a throughput is a mean of at least."""
WINDOWS_MAX = 4 * WINDOWS
"""What is in doubt after so many counts as missed."""
ERRORS = 2.0
"""Standard errors by which a mean is below its target before it is missed early."""


def take(check: Check, met: bool | None, ops: float | None) -> Check:
    """With one more window; one in which nothing was measured is not counted."""
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
    """By the mean; while it is below by less than its error more windows are waited for."""
    mean, count = check.after_ops or 0.0, check.windows
    if count < WINDOWS:
        return Verdict.OPEN
    if mean >= check.target:
        return Verdict.MET
    variance = max(0.0, check.evidence / count - mean * mean)
    is_below = mean + ERRORS * math.sqrt(variance / count) < check.target
    return Verdict.MISSED if is_below or count >= WINDOWS_MAX else Verdict.OPEN
