# SPDX-License-Identifier: Apache-2.0
"""Decides when the page cache of a tenant that arrived is warm, so that its SLOs can be judged."""

from dataclasses import replace

from cachepilot.domain.moving import Moved
from cachepilot.fleet.moving.seen.observation import TenantSeen
from cachepilot.sizes import PAGE_BYTES

COLD_TIMES = 3.0
COLD_MORE_S = 30.0
"""A page cache counts as warm after this multiple of the predicted time, plus these seconds."""
QUIET_S = 2.0
QUIET_SHARE = 0.01
"""A page cache counts as warm once it grew, for this many seconds, by less than this share of its
limit per second."""


def warm_after_s(moved: Moved) -> float:
    """Return the seconds after arrival when the page cache counts as warm at the latest."""
    return COLD_TIMES * moved.move.cold_s + COLD_MORE_S


def with_snapshot(moved: Moved, now_s: float, time_s: float, tenant: TenantSeen) -> Moved:
    """Add one snapshot of the target, taken at `time_s` of the target's clock.

    `warm_s` of the result is None while the page cache is cold.
    """
    # The clock of a node may go backwards.
    elapsed_s = max(0.0, time_s - moved.measured_s)
    quiet_s = moved.quiet_s + elapsed_s if _is_quiet(moved, tenant, elapsed_s) else 0.0
    is_warm = moved.warm_s is not None or (
        (tenant.is_full and tenant.limit_bytes >= moved.move.limit_bytes)
        or quiet_s >= QUIET_S
        or now_s - (moved.arrived_s or now_s) > warm_after_s(moved)
    )
    return replace(
        moved,
        measured_s=time_s,
        warm_s=(moved.warm_s or now_s) if is_warm else None,
        held_bytes=tenant.held_bytes,
        quiet_s=quiet_s,
    )


def _is_quiet(moved: Moved, tenant: TenantSeen, elapsed_s: float) -> bool:
    """Whether the page cache hardly grew since the last snapshot.

    The kernel counts used memory in batches of pages, so growth may not show for seconds. Misses
    are therefore counted as well: below the limit nothing is evicted, and each miss adds a page.
    """
    missed = 0 if tenant.is_full else tenant.missed_pages
    added = max(tenant.held_bytes - moved.held_bytes, missed * PAGE_BYTES)
    return moved.held_bytes > 0 and added <= QUIET_SHARE * tenant.limit_bytes * elapsed_s
