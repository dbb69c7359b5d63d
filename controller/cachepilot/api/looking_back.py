# SPDX-License-Identifier: Apache-2.0
"""What can be asked of the past: implements `cachepilot.api.service.Past`."""

from cachepilot.api.service import UnknownError
from cachepilot.api.shapes.changes import ChangeDetail, ChangeView, EvidenceView
from cachepilot.domain.change import ChangeFilter, ChangeRow
from cachepilot.fleet.fleet import Fleet
from cachepilot.node.shown.in_force import is_in_force


class LookingBack:
    """Answers from the store, and from what the last cycles published."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def changes(self, asked: ChangeFilter, limit: int) -> tuple[list[ChangeView], int]:
        """Changes, the newest first, and how many there are of those."""
        store = self._fleet.store
        rows = [self._view(row) for row in store.changes(asked, limit)]
        return rows, store.count_changes(asked)

    def change(self, number: int) -> ChangeDetail:
        """One change with its evidence; UnknownError when there is none of that id."""
        found = self._fleet.store.change(number)
        if found is None:
            raise UnknownError(f"change {number}: unknown")
        row, course = found
        evidence = None if course is None else EvidenceView.of(course)
        return ChangeDetail(change=self._view(row), evidence=evidence)

    def _view(self, row: ChangeRow) -> ChangeView:
        loop = self._fleet.loops().get(row.node)
        report = None if loop is None else loop.report
        in_force = report is not None and is_in_force(row, report, self._fleet.store)
        return ChangeView.of_row(row, in_force)
