# SPDX-License-Identifier: Apache-2.0
"""The past of the controller of literals: three changes of its tenants. Nothing is measured."""

from cachepilot.api.service import UnknownError
from cachepilot.api.shapes.changes import ChangeDetail, ChangeView, EvidenceView
from cachepilot.domain.change import ChangeFilter, ChangeKind, ChangeRow, ChangeState

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
        outcome="" if is_live else "who needs it has it",
        id=number,
    )


class FakePast:
    """Implements `cachepilot.api.service.Past`."""

    def __init__(self) -> None:
        self.rows = [
            change(3, ChangeState.LIVE),
            change(2, ChangeState.CONFIRMED),
            change(1, ChangeState.UNDONE, "/search"),
        ]

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

    def change(self, number: int) -> ChangeDetail:
        for row in self.rows:
            if row.id == number:
                empty = EvidenceView(
                    unit="pages", time_s=[1.0], gained=[None], promised=[2.0], bound=[3.0],
                    throughput_ops=[4.0], miss_ratio=[0.5],
                )  # fmt: skip
                return ChangeDetail(change=ChangeView.of_row(row, False), evidence=empty)
        raise UnknownError(f"change {number}: unknown")
