# SPDX-License-Identifier: Apache-2.0
"""Measures every tenant before, while and after tenants move."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from experiments.consolidation.moving.client import POLL_S, Client
from rich.console import RenderableType
from rich.text import Text

from cachepilot.api.shapes.rollout import RolloutView
from cachepilot.api.shapes.views import NodeView, TenantView
from cachepilot.cli.terminal import tables
from cachepilot.domain.slos import GOAL

KEEP = 0.9
"""Share of its throughput that a tenant without an SLO keeps."""


@dataclass
class Windows:
    """Windows of one tenant.

    `judged` counts those evaluated against the SLO, `met` those that met it. `slo` is the target.
    """

    node: str = ""
    ops: list[float] = field(default_factory=list)
    judged: int = 0
    met: int = 0
    slo: float | None = None

    @property
    def mean_ops(self) -> float | None:
        """Mean of the operations per second."""
        return sum(self.ops) / len(self.ops) if self.ops else None


Taken = Mapping[str, Windows]


class Followed:
    """Looks at all tenants whenever the controller has new measurements."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._windows: dict[str, Windows] = {}
        self._seen: dict[str, float] = {}

    def look(self) -> None:
        """Take one window of each node that sent a snapshot since the last look."""
        for node in self._client.nodes():
            if self._seen.get(node.name) == node.last_seen_s:
                continue
            self._seen[node.name] = node.last_seen_s
            for tenant in self._client.tenants_of(node.name):
                self._take(tenant)

    def _take(self, tenant: TenantView) -> None:
        if tenant.stale or tenant.throughput_ops is None:
            return
        found = self._windows.setdefault(tenant.cgroup, Windows())
        found.node = tenant.node
        found.ops.append(tenant.throughput_ops)
        for slo in tenant.slos:
            if slo.met is not None:
                found.slo = slo.target
                found.judged += 1
                found.met += slo.met

    def look_for(self, seconds: float) -> None:
        """Look for this many seconds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(POLL_S)

    def taken(self) -> Taken:
        """Return the windows taken since the last call."""
        found, self._windows = self._windows, {}
        return found


@dataclass(frozen=True)
class Kept:
    """One tenant: throughputs in operations per second, and shares of windows that met its SLO."""

    cgroup: str
    from_node: str
    to_node: str
    slo_ops: float | None
    before_ops: float | None
    after_ops: float | None
    predicted_ops: float | None
    met_before: float | None
    met_moving: float | None
    met_after: float | None
    move_s: float | None

    @property
    def is_kept(self) -> bool:
        """Whether the tenant's SLO is met in `GOAL` of the windows.

        Without an SLO, the result is whether the tenant keeps `KEEP` of its throughput.
        """
        if self.slo_ops is not None:
            return self.met_after is not None and self.met_after >= GOAL
        return (self.after_ops or 0.0) >= KEEP * (self.before_ops or 0.0)


@dataclass(frozen=True)
class Outcome:
    """All tenants, and the nodes that are empty."""

    state: str
    why: str
    tenants: list[Kept]
    nodes: int
    emptied: list[str]
    rollout_s: float


def _share(one: Windows | None) -> float | None:
    return one.met / one.judged if one is not None and one.judged else None


def outcome(
    nodes: Sequence[NodeView], rollout: RolloutView, before: Taken, moving: Taken, after: Taken
) -> Outcome:
    """Return the outcome, from what was measured before, during and after the moves."""
    moved = {one.move.cgroup: one for one in rollout.moves}
    found = []
    for cgroup, was in sorted(before.items(), key=lambda item: (item[1].node, item[0])):
        now, one = after.get(cgroup), moved.get(cgroup)
        took = None
        if one is not None and one.begun_s is not None and one.ended_s is not None:
            took = one.ended_s - one.begun_s
        found.append(
            Kept(
                cgroup,
                was.node,
                now.node if now else "-",
                was.slo,
                was.mean_ops,
                now.mean_ops if now else None,
                one.move.predicted_ops if one is not None and one.move.predicted_ops else None,
                _share(was),
                _share(moving.get(cgroup)),
                _share(now),
                took,
            )
        )
    emptied = [one.name for one in nodes if one.tenants == 0]
    ended_s = rollout.ended_s or rollout.begun_s
    return Outcome(
        rollout.state, rollout.why, found, len(nodes), emptied, ended_s - rollout.begun_s
    )


def table(found: Outcome) -> Iterator[RenderableType]:
    """Yield a table with a row per tenant, those that moved first, and a summary line."""
    shown = tables.new_table("measured before and after the moves (predictions in brackets)")
    tables.add_columns(shown, ["tenant", "node"], "left")
    tables.add_columns(shown, ["op/s before", "after", "SLO"])
    tables.add_columns(shown, ["met before", "while moving", "after"])
    tables.add_columns(shown, ["s per move"])
    for one in sorted(found.tenants, key=lambda one: one.move_s is None):
        node = one.from_node
        node += f" -> {one.to_node}" if one.to_node != one.from_node else ""
        predicted = f" ({one.predicted_ops:,.0f})" if one.predicted_ops else ""
        shown.add_row(
            one.cgroup,
            node,
            _ops(one.before_ops),
            _ops(one.after_ops) + predicted,
            _ops(one.slo_ops),
            *map(_percent, (one.met_before, one.met_moving, one.met_after)),
            "-" if one.move_s is None else f"{one.move_s:.1f}",
        )
    yield shown
    kept = sum(one.is_kept for one in found.tenants)
    yield Text(
        f"{found.nodes - len(found.emptied)} of {found.nodes} nodes run all tenants; drained: "
        f"{', '.join(found.emptied) or 'none'}; {kept} of {len(found.tenants)} tenants keep their "
        f"SLO or {KEEP:.0%} of their throughput; moved in {found.rollout_s:.0f} s",
        style="bold",
    )


def _ops(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
