# SPDX-License-Identifier: Apache-2.0
"""Who is measured around a move, and against what.

An agent leaves a tenant out whose cgroup it could not read, so a tenant that one snapshot lacks is
not gone: what is known of it stays, and it is still to be judged.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cachepilot.domain.moving import KEEP, Before, Check, Verdict
from cachepilot.fleet.moving.judging import POOR, WINDOWS, WINDOWS_MAX, take
from cachepilot.fleet.moving.seen.observation import NodeSeen, TenantSeen
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS
from cachepilot.sense.counters import WINDOW

LATENCY = "latency_p99_us"
"""The kind of an SLO that is judged on a quantile of the last `WINDOW` intervals."""
LOOKS_MAX = 2 * WINDOWS_MAX * WINDOW
"""Snapshots of a warm page cache after which the last verdict is due: one of a latency."""


def _looks_of(kind: str) -> int:
    """Snapshots from one window of a kind to the next: windows have no interval in common."""
    return WINDOW if kind == LATENCY else 1


def _first_look(kind: str) -> int:
    """The first snapshot of a warm page cache that tells nothing of when it was cold."""
    return WINDOW + 1 if kind == LATENCY else 1


def _is_counted(kind: str, looks: int) -> bool:
    """Whether the `looks`-th snapshot since page caches are warm is a window of its own."""
    first = _first_look(kind)
    return looks >= first and (looks - first) % _looks_of(kind) == 0


def looks_left(check: Check, looks: int) -> int:
    """Snapshots after the `looks`-th until a check is met, if it is in all windows from now on."""
    every, first = _looks_of(check.kind), _first_look(check.kind)
    following = first if looks < first else looks + every - (looks - first) % every
    return following - looks + every * max(0, WINDOWS - check.windows - 1)


def more_before(before: Iterable[Before], seen: Mapping[str, TenantSeen]) -> tuple[Before, ...]:
    """With one more window of each tenant that was measured in it.

    Those of which enough is known keep what was measured, and those that are missing all of it.
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
    """Kinds and targets of the SLOs of a tenant."""
    return tuple((slo.kind, slo.target) for slo in tenant.slos)


def was_active(checks: Iterable[Check], cgroup: str) -> bool:
    """Whether a tenant is held to anything that it did before a move."""
    return any(one.before_ops is not None for one in checks if one.cgroup == cgroup)


def missed_before(before: Iterable[Before]) -> list[str]:
    """Tenants whose SLOs are missed as it is."""
    return [one.cgroup for one in before if one.windows and one.met < POOR * one.windows]


def tenants_of(moved: str, home: NodeSeen, target: NodeSeen) -> dict[str, TenantSeen]:
    """Who is measured before a move: those on the target, and the one that is to come.

    What has its name on the target reads its page cache there.
    """
    found = {cgroup: one for cgroup, one in target.tenants.items() if cgroup != moved}
    if moved in home.tenants:
        found[moved] = home.tenants[moved]
    return found


def checks_of(
    before: Iterable[Before], there: Mapping[str, TenantSeen], missed: Collection[str] = ()
) -> tuple[Check, ...]:
    """What is to be measured after a move: every SLO, and what is kept without one.

    Those who `missed` their SLOs before are to do no worse: they keep what is kept without one. Who
    is missing is held to what was stated when it was last seen.
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
    """With one more window of a node, the `looks`-th since page caches are warm.

    Who is missing is waited for, for `lost_looks` snapshots in a row; then it is gone. Who, or
    whose SLO, is gone is not measured any more.
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
        # What is no SLO any more is not judged.
        if check.kind == KEEP or check.kind in told:
            there = replace(check, missing=0)
            if _is_counted(check.kind, looks):
                there = take(there, told.get(check.kind), one.ops)
            found.append(there)
    return tuple(kept for one in found for kept in _without_doubt(one, looks))


def _without_doubt(check: Check, looks: int) -> tuple[Check, ...]:
    """A verdict once so many windows could have been measured, though some measured nothing.

    Of who does nothing now, and did nothing before, there is no check then. What is open is missed,
    unless its tenant may be gone.
    """
    is_due = looks >= 2 * WINDOWS_MAX * _looks_of(check.kind)
    if not is_due or check.missing or check.verdict is not Verdict.OPEN:
        return (check,)
    if not check.windows and check.before_ops is None:
        return ()
    return (replace(check, verdict=Verdict.MISSED),)


def missed(checks: tuple[Check, ...]) -> list[Check]:
    """Those that were missed."""
    return [one for one in checks if one.verdict is Verdict.MISSED]


def told(check: Check) -> str:
    """A missed check, in words."""
    if check.kind == KEEP:
        return f"{check.cgroup} does {check.after_ops or 0:.0f} op/s, is to keep {check.target:.0f}"
    share = f"{check.met} of {check.windows} windows"
    return f"{check.cgroup} meets {check.kind} {check.target:g} in {share}"
