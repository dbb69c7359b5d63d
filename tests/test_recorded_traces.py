# SPDX-License-Identifier: Apache-2.0
"""The committed recordings are as their README describes them."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def test_the_readme_lists_the_tasks_with_their_records() -> None:
    records = _models.read_records(str(FOLDER / "points_and_scans.cptrace.zst"))
    tasks = np.bincount(records["task"])
    for task, count in ((1, tasks[1]), ("2, 3", tasks[2] + tasks[3]), (4, tasks[4])):
        assert re.search(rf"\| {task} \| .* \| {count:,} \|", README)
    database = set(records["inode"][records["task"] == 2])
    assert database == set(records["inode"][records["task"] == 3])
    assert database.isdisjoint(records["inode"][records["task"] == 4])


def records_of(name: str) -> NDArray[Any]:
    return _models.read_records(str(FOLDER / f"{name}.cptrace.zst"))


def test_a_search_goes_over_the_same_pages_in_the_same_order() -> None:
    records = records_of("source_search")
    keys = records["inode"].astype(np.int64) << 32 | records["index"].astype(np.int64)
    pages, times = np.unique(keys, return_counts=True)
    searched = pages[times % 6 == 0]
    assert len(searched) > 0.98 * len(pages)
    passes = keys[np.isin(keys, searched)].reshape(6, -1)
    assert (passes == passes[0]).all()


def test_point_reads_of_rocksdb_are_skewed_and_those_of_scans_are_runs() -> None:
    points = records_of("rocksdb_points")
    table = np.bincount(points["inode"]).argmax()
    counts = np.sort(np.unique(points["index"][points["inode"] == table], return_counts=True)[1])
    # In a Zipfian, a tenth of the pages gets most of the reads.
    assert counts[-len(counts) // 10 :].sum() > 0.5 * counts.sum()
    mixed = records_of("rocksdb_get_scan")
    # Blocks are not aligned: one begins in the page where the last one ended, or in the next page.
    steps = {
        task: np.diff(mixed["index"][mixed["task"] == task].astype(np.int64))
        for task, records in enumerate(np.bincount(mixed["task"]))
        if records > 10_000
    }
    in_order = {task: np.mean((step >= 0) & (step <= 1)) for task, step in steps.items()}
    assert len(in_order) == 3
    assert max(in_order.values()) > 0.95
    assert sum(share < 0.6 for share in in_order.values()) == 2


def test_a_build_reads_its_headers_again_and_again() -> None:
    records = records_of("build")
    _, counts = np.unique(records[["inode", "index"]], return_counts=True)
    assert np.median(counts) >= 4
