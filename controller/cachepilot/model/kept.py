# SPDX-License-Identifier: Apache-2.0
"""What a tenant without an SLO was to keep while its curves were trusted, and what it did."""

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
    """Operations per second: those of its miss ratio, so that who asks for less lost nothing."""

    ops: float = 0.0
    did_ops: "array[float]" = field(default_factory=lambda: array("d"))
    """Of the last intervals, in a fifth of the memory of as many objects."""

    def take(self, trust: Trust, kept_ops: float, did_ops: float | None) -> None:
        """Takes in what a plan lets it keep, and what it did in the interval before."""
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
        """What it does less of lacks what it keeps; 0 while that is not known.

        What it kept by trusted curves, less twice the margin for what its intervals scatter, at
        least for what hardly anybody scatters: the plan mends smaller losses. With curves that are
        no longer trusted it does not: then `least_gain` is enough.
        """
        if not trust.trusted:
            return (1 - least_gain) * self.ops if trust.is_measured else 0.0
        if len(self.did_ops) < INTERVALS_MIN:
            return 0.0
        margin = max(SCATTER_MAX, 2 * margin_of(scatter(tuple(self.did_ops))))
        return max(0.0, 1 - margin) * self.ops
