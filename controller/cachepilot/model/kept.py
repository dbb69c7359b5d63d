# SPDX-License-Identifier: Apache-2.0
"""What a tenant without an SLO keeps: its throughput by trusted curves, and what it lacks of it."""

from array import array
from dataclasses import dataclass, field

from cachepilot.domain.snapshot import Trust
from cachepilot.model.throughput_error import (
    INTERVALS,
    INTERVALS_MIN,
    SCATTER_MAX,
    margin_of,
    scatter,
)


@dataclass
class Kept:
    """What one tenant keeps, in operations per second.

    Throughputs are those that the model predicts of measured miss ratios. A tenant that is asked
    to do less has therefore lost nothing.
    """

    ops: float = 0.0
    did_ops: "array[float]" = field(default_factory=lambda: array("d"))
    """Throughputs of the last intervals; an array takes a fifth of the memory of a list."""

    def take(self, trust: Trust, kept_ops: float, did_ops: float | None) -> None:
        """Take in what a plan lets the tenant keep, and what it did in the interval before."""
        if not trust.trusted or kept_ops <= 0:
            return
        self.ops = kept_ops
        if did_ops is not None:
            self.did_ops.append(did_ops)
            del self.did_ops[:-INTERVALS]

    def is_lacking(self, did_ops: float, trust: Trust, least_gain: float) -> bool:
        """Whether it did less than `least_ops`, which is never more than it keeps."""
        return did_ops < self.ops and did_ops < self.least_ops(trust, least_gain)

    def least_ops(self, trust: Trust, least_gain: float) -> float:
        """The throughput below which a tenant lacks what it keeps; 0 while that is unknown.

        With trusted curves it is what the tenant keeps, less twice the margin for the scatter of
        its intervals, and less `SCATTER_MAX` at least, which hardly any tenant exceeds. The plan
        corrects smaller losses. It cannot if curves are no longer trusted, so then a loss of
        `least_gain` suffices.
        """
        if not trust.trusted:
            return (1 - least_gain) * self.ops if trust.is_measured else 0.0
        if len(self.did_ops) < INTERVALS_MIN:
            return 0.0
        margin = max(SCATTER_MAX, 2 * margin_of(scatter(tuple(self.did_ops))))
        return max(0.0, 1 - margin) * self.ops
