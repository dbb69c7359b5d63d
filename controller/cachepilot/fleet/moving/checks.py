# SPDX-License-Identifier: Apache-2.0
"""Who is measured around a move, and against what."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cachepilot.domain.moving import KEEP, Before, Check, Verdict
from cachepilot.fleet.moving.judging import POOR, WINDOWS_MAX, take
from cachepilot.fleet.moving.seen.observation import NodeSeen, TenantSeen
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS

LOOKS_MAX = 2 * WINDOWS_MAX
"""Snapshots of a warm page cache after which a verdict is due, though some measured nothing."""


def more_before(before: Iterable[Before], seen: Mapping[str, TenantSeen]) -> tuple[Before, ...]:
    """With one more window of each tenant that was measured in it; of no one else.

    Those of which enough is known stay as they are.
    """
    known = {one.cgroup: one for one in before}
    found = []
    for cgroup, one in sorted(seen.items()):
        so_far = known.get(cgroup, Before(cgroup))
        told = [slo.met for slo in one.slos if slo.met is not None]
        is_new = so_far.windows < BEFORE_WINDOWS
        if is_new and one.ops is not None and len(told) == len(one.slos):
            so_far = Before(
                cgroup, so_far.ops + one.ops, so_far.windows + 1, so_far.met + all(told)
            )
        found.append(so_far)
    return tuple(found)


def missed_before(before: Iterable[Before]) -> list[str]:
    """Tenants whose SLOs are missed as it is."""
    return [one.cgroup for one in before if one.windows and one.met < POOR * one.windows]


def tenants_of(moved: str, home: NodeSeen, target: NodeSeen) -> dict[str, TenantSeen]:
    """Who is measured: those on the target, and the one that comes."""
    found = dict(target.tenants)
    if moved in home.tenants:
        found[moved] = home.tenants[moved]
    return found


def checks_of(
    before: Iterable[Before], there: Mapping[str, TenantSeen], missed: Collection[str] = ()
) -> tuple[Check, ...]:
    """What is to be measured after a move: every SLO, and what is kept without one.

    Those who `missed` their SLOs before are to do no worse: they keep what is kept without one.
    """
    known = {one.cgroup: one.mean_ops for one in before}
    found: list[Check] = []
    for cgroup, one in sorted(there.items()):
        mean = known.get(cgroup)
        slos = () if cgroup in missed else one.slos
        found += [Check(cgroup, slo.kind, slo.target, mean) for slo in slos]
        if not slos and mean is not None and one.keep > 0:
            found.append(Check(cgroup, KEEP, one.keep * mean, mean))
    return tuple(found)


def taken(checks: tuple[Check, ...], seen: Mapping[str, TenantSeen]) -> tuple[Check, ...]:
    """With one more window of the target; who, or whose SLO, is gone is not measured any more."""
    found = []
    for check in checks:
        one = seen.get(check.cgroup)
        if one is None:
            continue
        told = {slo.kind: slo.met for slo in one.slos}
        # What is no SLO any more is not judged.
        if check.kind == KEEP or check.kind in told:
            found.append(take(check, told.get(check.kind), one.ops))
    return tuple(found)


def without_doubt(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """With a verdict on each: of who does nothing now, and did nothing before, there is no check.

    What is open after so many windows is missed.
    """
    kept = (one for one in checks if one.windows or one.before_ops is not None)
    return tuple(
        replace(one, verdict=Verdict.MISSED) if one.verdict is Verdict.OPEN else one for one in kept
    )


def missed(checks: tuple[Check, ...]) -> list[Check]:
    """Those that were missed."""
    return [one for one in checks if one.verdict is Verdict.MISSED]


def told(check: Check) -> str:
    """A missed check, in words."""
    if check.kind == KEEP:
        return f"{check.cgroup} does {check.after_ops or 0:.0f} op/s, is to keep {check.target:.0f}"
    share = f"{check.met} of {check.windows} windows"
    return f"{check.cgroup} meets {check.kind} {check.target:g} in {share}"
