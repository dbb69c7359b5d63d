# SPDX-License-Identifier: Apache-2.0
"""What a policy gives that was there before the phase of the workload began.

Curves of a phase tell what a policy gives that is started with it. One that holds what it kept of
the phase before may do much worse, and what is measured of it says more.
"""

from collections import deque

from cachepilot.control.counters import Sample
from cachepilot.control.wire_curves import Measured
from cachepilot.v1 import session_pb2 as wire

INTERVALS = 3
"""Of which the least miss ratio counts: a loop hits and misses in turn."""


class PhaseMemory:
    """The phase of one tenant, and whether its policy and limit are those from before it."""

    def __init__(self) -> None:
        self._phase: int | None = None
        self._from_before: tuple[str, int] | None = None
        self._misses: deque[float] = deque(maxlen=INTERVALS)

    def take(self, tenant: wire.Tenant, sample: Sample | None) -> None:
        """Takes a snapshot in. The first one does not tell what was before it."""
        having = (tenant.policy, tenant.limit_bytes)
        if tenant.phase != self._phase:
            self._from_before = None if self._phase is None else having
            self._phase = tenant.phase
            self._misses.clear()
        elif having != self._from_before:
            self._from_before = None
        if sample is not None:
            self._misses.append(sample.miss_ratio)

    def corrected(self, measured: Measured, policy: str, limit_bytes: int) -> Measured:
        """Curves of which that of the present policy is no better than what is measured of it."""
        if self._from_before is None or len(self._misses) < INTERVALS:
            return measured
        return measured.raised(policy, limit_bytes, min(self._misses))
