# SPDX-License-Identifier: Apache-2.0
"""Which decisions are in force: the tenant has their setting, and no later decision set it."""

from collections.abc import Iterator

from cachepilot.domain.decisions import Event, event_word
from cachepilot.domain.past.change import SETTINGS, ChangeKind, ChangeRow, ChangeState
from cachepilot.domain.recorded import RecordedDecision, RunningTrial
from cachepilot.node.shown.report import Report
from cachepilot.store.store import Store

IN_FORCE = (Event.TRIAL, Event.KEPT)
"""The only events after which a tenant has what was decided."""
KEYS = ("policy", "limit_bytes")


def changed(one: RecordedDecision | ChangeRow) -> dict[str, str | int]:
    """The settings that a decision or a change replaced, by name."""
    pairs = ((key, getattr(one, f"from_{key}"), getattr(one, f"to_{key}")) for key in KEYS)
    return {
        key: before
        for key, before, after in pairs
        if None not in (before, after) and before != after
    }


def _present(report: Report, cgroup: str) -> dict[str, str | int]:
    """The setting of a tenant. A limit that is being lowered counts as its target."""
    seen = report.collected.seen[cgroup]
    limit = seen.wire.target_limit_bytes or seen.limit_bytes
    return {"policy": seen.tenant.policy, "limit_bytes": limit}


def _runs(one: RecordedDecision, trial: RunningTrial | None) -> bool:
    """Whether a trial belongs to a decision. Its target limit may have changed since."""
    if trial is None or trial.from_limit_bytes != one.from_limit_bytes:
        return False
    return (trial.from_policy, trial.to_policy) == (one.from_policy, one.to_policy)


def _on_trial(trial: RunningTrial | None, key: str) -> bool:
    return trial is not None and getattr(trial, f"from_{key}") != getattr(trial, f"to_{key}")


def _objections(one: RecordedDecision, report: Report, store: Store) -> Iterator[str]:
    keys = changed(one)
    if one.event not in IN_FORCE:
        words = ", ".join(map(event_word, IN_FORCE))
        yield f"{event_word(one.event)}: not in force (allowed: {words})"
    if not keys:
        yield "it changed nothing (allowed: one that did)"
    trial, is_trial = report.trials.get(one.cgroup), one.event == Event.TRIAL
    if is_trial and one.epoch <= report.epoch and not _runs(one, trial):
        yield "not in force any more: its trial is over"
    present = _present(report, one.cgroup)
    for key in keys:
        led_to = getattr(one, f"to_{key}")
        if not is_trial and _on_trial(trial, key):
            yield f"not in force any more: another {key} is on trial"
        if not is_trial and one.epoch < report.epoch and present[key] != led_to:
            yield f"not in force any more: {key} is {present[key]}, it led to {led_to}"
        later = store.later(one, key, (Event.TRIAL,) if is_trial else IN_FORCE, not is_trial)
        if later is not None:
            yield f"not in force any more: decision {later} is"


def why_not(one: RecordedDecision, report: Report, store: Store) -> str:
    """Return why a decision about a present tenant is not in force; empty if it is.

    A decision of the last cycle counts although the node has not executed it yet.
    """
    return next(_objections(one, report, store), "")


def is_in_force(row: ChangeRow, report: Report, store: Store) -> bool:
    """Whether a tenant has the setting of a change, and no later change of its kind set it."""
    if row.kind not in SETTINGS or row.cgroup not in report.collected.seen:
        return False
    if row.state is ChangeState.LIVE:
        return True
    if row.state is not ChangeState.CONFIRMED:
        return False
    key = "policy" if row.kind is ChangeKind.POLICY else "limit_bytes"
    is_there = _present(report, row.cgroup)[key] == getattr(row, f"to_{key}")
    return is_there and store.later_change(row) is None
