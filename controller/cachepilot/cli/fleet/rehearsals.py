# SPDX-License-Identifier: Apache-2.0
"""The rehearsals part of `cachepilot consolidate --rollout`, measured before any tenant moves."""

from collections.abc import Iterator

from cachepilot.api.shapes.rollout import RehearsalView, RehearsedView
from cachepilot.cli.terminal import formats
from cachepilot.domain.moving import KEEP, RehearsalState, Verdict
from cachepilot.readable import moment
from cachepilot.sizes import human_bytes

RUNNING = {
    RehearsalState.MEASURING: "all tenants are measured with their present memory",
    RehearsalState.SETTLING: "memory was taken, page caches settle",
    RehearsalState.JUDGED: "SLOs are judged with the planned memory",
}


def lines(found: RehearsalView) -> Iterator[str]:
    """Yield the state of a rehearsal, each tenant while it runs, and the tenants that missed."""
    yield f"{found.node}: {_state(found)}"
    if found.state in RUNNING:
        for one in found.tenants:
            yield f"  {_who(one)}: {_does(one)}"
    for one in found.tenants:
        if one.verdict is Verdict.MISSED:
            yield f"  {_who(one)}: {_missed(one)}"
    yield from dict.fromkeys(
        f"  {_who(one)}: not proven, it had {_had(one)}" for one in found.tenants if one.unproven
    )


def _had(one: RehearsedView) -> str:
    return f"up to {human_bytes(one.most_bytes)}" if one.most_bytes else "no limit"


def _state(found: RehearsalView) -> str:
    over = "" if found.over_s is None else f" at {moment(found.over_s)}"
    if found.state is RehearsalState.NOT_BEGUN:
        return f"not rehearsed{f': {found.why}' if found.why else ' yet'}"
    if found.state is RehearsalState.ENDED:
        return "the rehearsal was given up"
    if found.state is RehearsalState.PASSED:
        return f"the rehearsal was passed{over}: {_met(found)}"
    if found.state is RehearsalState.MISSED:
        return f"the rehearsal was missed{over}: {found.why}"
    since = "" if found.since_s is None else f" since {moment(found.since_s)}"
    left = "" if found.left_s is None else f"; {found.left_s:.0f} s to go if all is met, predicted"
    return f"rehearsed{since}: {RUNNING[found.state]}{left}"


def _met(found: RehearsalView) -> str:
    slos = [one for one in found.tenants if one.kind not in (None, KEEP)]
    kept = [one for one in found.tenants if one.kind == KEEP]
    windows, met = sum(one.windows for one in slos), sum(one.met for one in slos)
    told = [f"{met} of {windows} windows met"] if slos else []
    told += [f"{len(kept)} keep"] if kept else []
    return ", ".join(told) or "no tenant was judged"


def _who(one: RehearsedView) -> str:
    if one.to_node is None or one.limit_bytes is None:
        return f"{one.cgroup} on {one.node}"
    return f"{one.cgroup}, to {one.to_node} with {human_bytes(one.limit_bytes)}"


def _does(one: RehearsedView) -> str:
    before = f"before {formats.count(one.before_ops)} op/s"
    if one.kind is None:
        return before
    must = f"{_target(one)} met in {one.met} of {one.windows} windows"
    return f"{before}, now {formats.count(one.after_ops)} op/s; {must}: {one.verdict}"


def _target(one: RehearsedView) -> str:
    if one.kind in (KEEP, "throughput_ops"):
        return f"{one.kind} {formats.count(one.target)} op/s"
    return f"{one.kind} {formats.slo_value(one.kind or '', one.target)}"


def _missed(one: RehearsedView) -> str:
    """Return by how much a tenant missed, and until when less memory is not tried again."""
    short = "" if one.short is None else f", {formats.share(one.short)} less than that"
    again = ""
    if one.until_s is not None and one.least_bytes is not None:
        least = human_bytes(one.least_bytes)
        again = f"; not tried with less than {least} until {moment(one.until_s)}"
    return f"{_does(one)}{short}{again}"
