# SPDX-License-Identifier: Apache-2.0
"""The recommendation for a tenant, as it is shown."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recommendation:
    """A recommended policy and limit, with predictions and their certainty.

    With less than `lower_bytes`, the tenant would have a lower throughput than predicted even if
    its curve is wrong in its favour. With `upper_bytes`, it has that throughput even if the curve
    is wrong against it. Both use the 95% error bar. Of its control intervals, 95% are predicted to
    have a throughput between `throughput_low_ops` and `throughput_high_ops`, with all
    recommendations of the node in force. `present_ops` is the mean of the last intervals in the
    present setting, or what the model predicts of it while too few are known. Idle intervals count
    as 0.

    `confidence` is the probability that an interval reaches `at_least_ops`. This is what its SLO
    needs; without one, its present throughput if it is to gain, or otherwise the throughput that it
    keeps. `at_least_ops` is None if the tenant needs none of these; `confidence` is then None, too,
    as it is if the curves have low confidence. `since_s` is when the recommendation last changed,
    in seconds of the node's clock; None if it never differed from the present setting.
    """

    policy: str
    limit_bytes: int
    lower_bytes: int
    upper_bytes: int
    throughput_ops: float
    throughput_low_ops: float
    throughput_high_ops: float
    present_ops: float
    at_least_ops: float | None
    confidence: float | None
    since_s: float | None
