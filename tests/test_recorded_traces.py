# SPDX-License-Identifier: Apache-2.0
"""The committed recordings are what their README says."""

import re
from pathlib import Path

import numpy as np

from cachepilot import _models

FOLDER = Path(__file__).parent.parent / "experiments" / "recorded_traces"
ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \|", re.MULTILINE)
README = (FOLDER / "README.md").read_text()


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_the_readme_lists_every_trace() -> None:
    rows = {
        name: (number(requests), number(pages)) for name, requests, pages in ROW.findall(README)
    }
    traces = {path.name.split(".")[0]: path for path in FOLDER.glob("*.cptrace.zst")}
    assert rows == {name: _models.trace_footprint(str(path)) for name, path in traces.items()}
    assert sum(path.stat().st_size for path in traces.values()) < 2 << 20


def test_the_readme_tells_the_tasks_apart() -> None:
    records = _models.read_records(str(FOLDER / "points_and_scans.cptrace.zst"))
    tasks = np.bincount(records["task"])
    for task, count in ((1, tasks[1]), ("2, 3", tasks[2] + tasks[3]), (4, tasks[4])):
        assert re.search(rf"\| {task} \| .* \| {count:,} \|", README)
    database = set(records["inode"][records["task"] == 2])
    assert database == set(records["inode"][records["task"] == 3])
    assert database.isdisjoint(records["inode"][records["task"] == 4])
