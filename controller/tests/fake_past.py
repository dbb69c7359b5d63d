# SPDX-License-Identifier: Apache-2.0
"""The past of the fake controller: three changes of its tenants. Nothing is measured."""

from cachepilot.api.service import UnknownError
from cachepilot.api.shapes.changes import ChangeDetail, ChangeView, EvidenceView
from cachepilot.api.shapes.comparison import Comparison, SumView, TenantComparisonView
from cachepilot.api.shapes.series import SeriesView
from cachepilot.domain.past.actor import Actor
from cachepilot.domain.past.budget import Budget, Counted, span_budget
from cachepilot.domain.past.change import ChangeFilter, ChangeKind, ChangeRow, ChangeState
from cachepilot.domain.past.comparison import (
    MeasuredReading,
    PredictedReading,
    Ratio,
    Source,
    TenantComparison,
    Verdict,
    summed,
)

MIB = 1 << 20
NOW_S = 1_790_000_000.0


def change(number: int, state: ChangeState, cgroup: str = "/db") -> ChangeRow:
    is_live = state is ChangeState.LIVE
    return ChangeRow(
        ChangeKind.MEMORY,
        state,
        "alpha",
        cgroup,
        NOW_S - number * 60,
        None if is_live else NOW_S - number * 60 + 30,
        epoch=400 + number,
        from_policy="lfu",
        to_policy="lfu",
        from_limit_bytes=256 * MIB,
        to_limit_bytes=512 * MIB,
        baseline_ops=3900.0,
        predicted_ops=5300.0,
        measured_ops=None if is_live else 5240.0,
        text="256 MiB → 512 MiB",
        why="for its SLO",
        outcome="" if is_live else "the tenants that need memory have it",
        id=number,
    )


def compared(cgroup: str, ratio: float) -> TenantComparison:
    now = MeasuredReading(5000.0, 0.1, "lfu", 512 * MIB, NOW_S - 5, NOW_S)
    before = MeasuredReading(3900.0, 0.48, "default", 256 * MIB, NOW_S - 900, NOW_S - 600)
    ops = 5000.0 / ratio
    default = PredictedReading(ops, 0.97 * ops, 1.03 * ops, 0.4, "default", 256 * MIB)
    versus_default = Ratio(ratio, ratio / 1.03, ratio * 1.03, Source.PREDICTED)
    versus_before = Ratio(5000 / 3900, 1.2, 1.4, Source.MEASURED)
    return TenantComparison(
        "alpha", cgroup, 1.0, cgroup == "/db", now, default, before, versus_default, versus_before,
        "5,000 op/s are measured",
    )  # fmt: skip


class FakePast:
    """Implements `cachepilot.api.service.Past`."""

    def __init__(self) -> None:
        self.rows = [
            change(3, ChangeState.LIVE),
            change(2, ChangeState.CONFIRMED),
            change(1, ChangeState.UNDONE, "/search"),
        ]
        self.refusals: list[tuple[str, str, str]] = []

    def refused(self, actor: Actor, asked: str, why: str) -> None:
        self.refusals.append((str(actor), asked, why))

    def changes(self, asked: ChangeFilter, limit: int) -> tuple[list[ChangeView], int]:
        found = [
            ChangeView.of_row(row, row.state is not ChangeState.UNDONE)
            for row in self.rows
            if asked.cgroup in (None, row.cgroup)
            and asked.node in (None, row.node)
            and asked.state in (None, row.state)
            and asked.kind in (None, row.kind)
            and (asked.by is None or asked.by in row.by)
            and (asked.below is None or row.id < asked.below)
            and (asked.since_s is None or row.begun_s >= asked.since_s)
        ]
        return found[:limit], len(found)

    def compared(
        self, node: str | None = None, cgroup: str | None = None, verdict: Verdict | None = None
    ) -> list[TenantComparison]:
        return [
            one
            for one in (compared("/db", 1.25), compared("/search", 0.9))
            if cgroup in (None, one.cgroup) and verdict in (None, one.verdict)
        ]

    def comparison(self, node: str | None = None) -> Comparison:
        gains, pays = (TenantComparisonView.of(one) for one in self.compared())
        fleet = SumView.of(summed("", self.compared()))
        return Comparison(fleet=fleet, nodes=[], gains=[gains], pays=[pays])

    def budgets(self, node: str | None = None, cgroup: str | None = None) -> list[Budget]:
        hour = span_budget("1h", 3600.0, Counted(3600, 3564))
        found = Budget(
            "alpha", "/db", "throughput_ops", 5000.0, NOW_S - 9000, 5200.0, True, (hour,), 0.5, 0.5
        )  # fmt: skip
        return [found] if cgroup in (None, "/db") and node in (None, "alpha") else []

    def series(
        self, cgroup: str, node: str | None, since_s: float | None, until_s: float | None,
        points: int,
    ) -> SeriesView:  # fmt: skip
        names = [one for one in SeriesView.model_fields if one not in ("node", "cgroup", "latency")]
        columns = {one: [1.0, None] for one in names if not one.endswith("_s") or "_per_" in one}
        times = {"since_s": NOW_S - 300, "until_s": NOW_S, "step_s": 1.0}
        known = {
            **columns,
            **times,
            "time_s": [NOW_S - 2, NOW_S - 1],
            "policy": ["lfu", "lfu"],
            "latency": None,
        }
        return SeriesView(node="alpha", cgroup=cgroup, **known)  # type: ignore[arg-type]

    def change(self, number: int) -> ChangeDetail:
        for row in self.rows:
            if row.id == number:
                empty = EvidenceView(
                    unit="pages", time_s=[1.0], gained=[None], predicted=[2.0], bound=[3.0],
                    throughput_ops=[4.0], miss_ratio=[0.5],
                )  # fmt: skip
                return ChangeDetail(change=ChangeView.of_row(row, False), evidence=empty)
        raise UnknownError(f"change {number}: unknown")
