# SPDX-License-Identifier: Apache-2.0
"""Measures each tenant before the autopilot, or an operator through it, changes anything of it."""

from collections.abc import Collection, Iterable, Mapping

from cachepilot.domain.past.baseline import BASELINE_S, Baseline
from cachepilot.node.deciding.tenant_state import TenantState
from cachepilot.sense.collect import Collected, Seen


class Baselines:
    """The baselines of one node. Intervals in which a page cache fills are left out."""

    def __init__(self, rows: Iterable[Baseline] = ()) -> None:
        self._known = {one.cgroup: one for one in rows}
        self._changed: set[str] = set()

    def take(self, collected: Collected, states: Mapping[str, TenantState]) -> None:
        """Take in an interval of the tenants whose baseline is not closed.

        A baseline is closed when a setting changes, or after BASELINE_S seconds of measurement.
        """
        for cgroup, seen in collected.seen.items():
            known = self._known.get(cgroup)
            if known is None or known.cgroup_id != str(seen.wire.cgroup_id):
                known = self._known[cgroup] = _begun(seen, collected.time_s)
                self._changed.add(cgroup)
            if known.closed:
                continue
            if _is_changed(known, seen, states[cgroup]):
                known.closed = True
                self._changed.add(cgroup)
                continue
            sample = seen.sample
            if sample is not None and sample.ops > 0 and not seen.is_filling:
                known.take(sample.elapsed_s, sample.ops, sample.accesses, sample.miss_ratio)
                known.until_s = collected.time_s
                known.closed = known.seconds >= BASELINE_S
                self._changed.add(cgroup)

    def of(self, cgroup: str) -> Baseline | None:
        """The baseline of a tenant; None if it was never seen."""
        return self._known.get(cgroup)

    def changed(self) -> list[Baseline]:
        """The baselines that must be stored."""
        return [self._known[name] for name in sorted(self._changed) if name in self._known]

    def stored(self) -> None:
        """Note that what `changed` last returned is in the store."""
        self._changed.clear()

    def keep_only(self, cgroups: Collection[str]) -> set[str]:
        """Forget all tenants but `cgroups`; return those that were forgotten."""
        gone = self._known.keys() - set(cgroups)
        for cgroup in gone:
            del self._known[cgroup]
        return gone


def _begun(seen: Seen, time_s: float) -> Baseline:
    told = seen.wire
    initial = told.initial_limit_bytes
    found = Baseline(
        seen.tenant.cgroup,
        str(told.cgroup_id),
        seen.tenant.policy,
        told.limit_bytes,
        time_s,
        time_s,
    )
    # The agent ran here before, under a controller whose store is lost, and changed the limit.
    found.closed = bool(initial) and initial != told.limit_bytes
    return found


def _is_changed(known: Baseline, seen: Seen, state: TenantState) -> bool:
    """Whether the setting differs from the one that was found, or is about to change."""
    told = seen.wire
    is_other = seen.tenant.policy != known.policy or told.limit_bytes != known.limit_bytes
    moves = bool(told.target_limit_bytes) and told.target_limit_bytes != told.limit_bytes
    return is_other or moves or bool(state.changes) or state.policy.trial is not None
