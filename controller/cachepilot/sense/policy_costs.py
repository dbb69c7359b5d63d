# SPDX-License-Identifier: Apache-2.0
"""The CPU cost of each policy's programs on one node, as its agent measures it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cachepilot.sense.collect import Seen
from cachepilot.sense.counterfactuals import DEFAULT, Floats
from cachepilot.sense.validate import POLICIES_MAX

HALF_LIFE_S = 60.0
"""Half-life of a measurement. Agents measure twice in that time."""


@dataclass
class PolicyCosts:
    """CPU time per access by policy, microseconds, the latest last. It survives a restart."""

    us_per_access: dict[str, float] = field(default_factory=dict)

    def take(self, seen: Iterable[Seen], elapsed_s: float) -> None:
        """Take in an interval; the tenants of a policy are weighted by their accesses."""
        told: dict[str, tuple[float, float]] = {}
        for one in seen:
            tenant, accesses = one.wire, 0 if one.pages is None else one.pages.accesses
            is_told = tenant.HasField("policy_cpu_us_per_access")
            if accesses and is_told and tenant.policy != DEFAULT:
                time_us, others = told.get(tenant.policy, (0.0, 0.0))
                time_us += accesses * tenant.policy_cpu_us_per_access
                told[tenant.policy] = time_us, others + accesses
        keep = 0.5 ** (max(0.0, elapsed_s) / HALF_LIFE_S)
        for policy, (time_us, weight) in told.items():
            now = time_us / weight
            then = self.us_per_access.pop(policy, now)
            self.us_per_access[policy] = keep * then + (1 - keep) * now
        for policy in list(self.us_per_access)[:-POLICIES_MAX]:
            del self.us_per_access[policy]

    def of(self, policies: Sequence[str]) -> Floats | None:
        """Return the cost of each of `policies`, microseconds per access; None if no cost is known.

        The default runs no programs: a cost is what a policy adds to it. A policy that was never in
        force here gets the mean of those that were, until it is tried.
        """
        known = self.us_per_access
        if not any(known.values()):
            return None
        mean = sum(known.values()) / len(known)
        return np.array([0.0 if name == DEFAULT else known.get(name, mean) for name in policies])
