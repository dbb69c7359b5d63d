# SPDX-License-Identifier: Apache-2.0
"""The checks of a move: which tenants are measured before and after it, and against which targets.

An agent leaves out a tenant whose cgroup it could not read. If a single snapshot lacks a tenant,
the tenant is therefore not gone: its measurements are kept, and it is still to be judged.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cachepilot.domain.moving import KEEP, Before, Check, Verdict
from cachepilot.fleet.moving.judging import POOR, WINDOWS, WINDOWS_MAX, take
from cachepilot.fleet.moving.seen.observation import NodeSeen, TenantSeen
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS
from cachepilot.sense.counters import WINDOW

LATENCY = "latency_p99_us"
"""The kind of the SLO that is judged by a quantile over the last `WINDOW` intervals."""
LOOKS_MAX = 2 * WINDOWS_MAX * WINDOW
"""Snapshots of a warm page cache after which every verdict is due; a latency takes longest."""


def _looks_of(kind: str) -> int:
    """Return the number of snapshots per window of a kind; windows have no interval in common."""
    return WINDOW if kind == LATENCY else 1


def _first_look(kind: str) -> int:
    """Return the first snapshot since the page cache is warm that includes no cold interval."""
    return WINDOW + 1 if kind == LATENCY else 1


def _is_counted(kind: str, looks: int) -> bool:
    """Whether the `looks`-th snapshot since page caches are warm completes a window."""
    first = _first_look(kind)
    return looks >= first and (looks - first) % _looks_of(kind) == 0


def looks_left(check: Check, looks: int) -> int:
    """Return how many snapshots after the `looks`-th a check needs if all its windows are met."""
    every, first = _looks_of(check.kind), _first_look(check.kind)
    following = first if looks < first else looks + every - (looks - first) % every
    return following - looks + every * max(0, WINDOWS - check.windows - 1)


def more_before(before: Iterable[Before], seen: Mapping[str, TenantSeen]) -> tuple[Before, ...]:
    """Add one window of each tenant that was measured in it.

    Tenants with enough windows, and tenants that the snapshot lacks, keep their measurements.
    """
    known = {one.cgroup: one for one in before}
    found = dict(known)
    for cgroup, one in seen.items():
        so_far = known.get(cgroup, Before(cgroup))
        told = [slo.met for slo in one.slos if slo.met is not None]
        is_new = so_far.windows < BEFORE_WINDOWS
        if is_new and one.ops is not None and len(told) == len(one.slos):
            so_far = Before(
                cgroup, so_far.ops + one.ops, so_far.windows + 1, so_far.met + all(told)
            )
        found[cgroup] = replace(so_far, slos=stated(one), keep=one.keep)
    return tuple(found[cgroup] for cgroup in sorted(found))


def stated(tenant: TenantSeen) -> tuple[tuple[str, float], ...]:
    """Return kinds and targets of the SLOs of a tenant."""
    return tuple((slo.kind, slo.target) for slo in tenant.slos)


def was_active(checks: Iterable[Check], cgroup: str) -> bool:
    """Whether a throughput of the tenant was measured before the move."""
    return any(one.before_ops is not None for one in checks if one.cgroup == cgroup)


def missed_before(before: Iterable[Before]) -> list[str]:
    """Return tenants that miss an SLO before the move."""
    return [one.cgroup for one in before if one.windows and one.met < POOR * one.windows]


def tenants_of(moved: str, home: NodeSeen, target: NodeSeen) -> dict[str, TenantSeen]:
    """Return the tenants to measure before a move: those on the target, and the one to come.

    A cgroup with the moved tenant's path on the target is left out: it only reads the tenant's page
    cache in advance.
    """
    found = {cgroup: one for cgroup, one in target.tenants.items() if cgroup != moved}
    if moved in home.tenants:
        found[moved] = home.tenants[moved]
    return found


def checks_of(
    before: Iterable[Before], there: Mapping[str, TenantSeen], missed: Collection[str] = ()
) -> tuple[Check, ...]:
    """Return the checks of a move: one per SLO, or a `keep` check for a tenant without an SLO.

    Tenants in `missed` missed their SLOs before the move. They must not do worse, and so get a
    `keep` check instead. For a tenant that `there` lacks, the objectives of the last time that it
    was seen apply.
    """
    known = {one.cgroup: one for one in before}
    found: list[Check] = []
    for cgroup in sorted({*known, *there}):
        did, one = known.get(cgroup, Before(cgroup)), there.get(cgroup)
        slos, keep = (did.slos, did.keep) if one is None else (stated(one), one.keep)
        mean = did.mean_ops
        slos = () if cgroup in missed else slos
        found += [Check(cgroup, kind, target, mean) for kind, target in slos]
        if not slos and mean is not None and keep > 0:
            found.append(Check(cgroup, KEEP, keep * mean, mean))
    return tuple(found)


def taken(
    checks: tuple[Check, ...], seen: Mapping[str, TenantSeen], looks: int, lost_looks: int
) -> tuple[Check, ...]:
    """Add one window of a node, the `looks`-th since page caches are warm.

    A tenant that the snapshot lacks is waited for, for `lost_looks` snapshots in a row. After that
    it counts as gone, and its open checks are removed. A check whose SLO was removed is dropped,
    too.
    """
    found = []
    for check in checks:
        one = seen.get(check.cgroup)
        if one is None:
            is_open = check.verdict is Verdict.OPEN
            if check.missing + is_open <= lost_looks:
                found.append(replace(check, missing=check.missing + is_open))
            continue
        told = {slo.kind: slo.met for slo in one.slos}
        # An SLO that was removed meanwhile is not judged.
        if check.kind == KEEP or check.kind in told:
            there = replace(check, missing=0)
            if _is_counted(check.kind, looks):
                there = take(there, told.get(check.kind), one.ops)
            found.append(there)
    return tuple(kept for one in found for kept in _without_doubt(one, looks))


def _without_doubt(check: Check, looks: int) -> tuple[Check, ...]:
    """Decide a check once twice the maximum of windows have passed, though some measured nothing.

    A check is dropped if its tenant does nothing now and did nothing before. Any other open check
    is missed, unless its tenant may be gone.
    """
    is_due = looks >= 2 * WINDOWS_MAX * _looks_of(check.kind)
    if not is_due or check.missing or check.verdict is not Verdict.OPEN:
        return (check,)
    if not check.windows and check.before_ops is None:
        return ()
    return (replace(check, verdict=Verdict.MISSED),)


def missed(checks: tuple[Check, ...]) -> list[Check]:
    """Return the checks that were missed."""
    return [one for one in checks if one.verdict is Verdict.MISSED]


def told(check: Check) -> str:
    """Return a missed check in words."""
    if check.kind == KEEP:
        return (
            f"{check.cgroup} does {check.after_ops or 0:.0f} op/s, has to keep {check.target:.0f}"
        )
    share = f"{check.met} of {check.windows} windows"
    return f"{check.cgroup} meets {check.kind} {check.target:g} in {share}"
