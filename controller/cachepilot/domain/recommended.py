# SPDX-License-Identifier: Apache-2.0
"""What is recommended for a tenant, as it is shown."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recommendation:
    """A policy and a limit, what they would bring, and how sure that is. Amounts are predicted.

    With less than `lower_bytes` the tenant would have a lower throughput than predicted even if its
    curve is wrong in its favour, with `upper_bytes` it has that even if the curve is wrong against
    it; both by the error bar of 95%. `throughput_low_ops` and `throughput_high_ops` are the bounds
    of 95% of `throughput_ops`, and `present_ops` is what the same model predicts for what it has.

    `confidence` is the chance that the tenant does `at_least_ops`: what its SLO takes, or else what
    it does now if it is to get more, or what it keeps if it is to give memory. Both are None where
    nothing of that is asked. `since_s` is when the recommendation last changed, in seconds of the
    node's clock; None: it never was another than what the tenant has.
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
