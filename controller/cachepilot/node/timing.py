# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of control cycles: the time of their steps, and what failed or was lost."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from prometheus_client import Counter, Histogram

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

STEP_SECONDS = Histogram(
    "cachepilot_control_step_seconds",
    "Time of one step of a control cycle: collect, observe, plan, decide, advise, store or apply.",
    ("step",),
    buckets=BUCKETS,
)
CYCLE_SECONDS = Histogram(
    "cachepilot_control_cycle_seconds",
    "Time of a control cycle, from a snapshot to its plan.",
    buckets=BUCKETS,
)
CYCLES_FAILED = Counter(
    "cachepilot_control_cycles_failed",
    "Control cycles that ended in an error and changed nothing.",
    ("node",),
)
CYCLES_UNSTORED = Counter(
    "cachepilot_control_cycles_unstored",
    "Control cycles whose state could not be stored, and that therefore sent only rollbacks.",
    ("node",),
)
DECISIONS_LOST = Counter(
    "cachepilot_control_decisions_lost",
    "Decisions that could not be stored for so long that the history lacks them.",
    ("node",),
)
RECORDS_SKIPPED = Counter(
    "cachepilot_control_records_skipped",
    "Decisions whose record was not kept, to bound the time that large nodes take.",
    ("node",),
)
SERIES_LOST = Counter(
    "cachepilot_control_series_points_lost",
    "Points of time series that could not be stored for so long that the store lacks them.",
    ("node",),
)
NEEDS_LOST = Counter(
    "cachepilot_control_needs_lost",
    "Tenants whose past needs consolidation no longer knows, since too many came after them.",
    ("node",),
)


OF_NODES = (
    CYCLES_FAILED, CYCLES_UNSTORED, DECISIONS_LOST, RECORDS_SKIPPED, SERIES_LOST, NEEDS_LOST,
)  # fmt: skip


def forget_node(name: str) -> None:
    """Drop the metrics of a node."""
    for counter in OF_NODES:
        with suppress(KeyError):
            counter.remove(name)


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Observe the time of one step of a cycle, also if the step fails."""
    started = time.perf_counter()
    try:
        yield
    finally:
        STEP_SECONDS.labels(step).observe(time.perf_counter() - started)
