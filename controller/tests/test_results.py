# SPDX-License-Identifier: Apache-2.0
"""Rows of results: the schema, and the order of the scorecard."""

import json
from pathlib import Path
from typing import Any

import pytest

from cachepilot.errors import InputError
from cachepilot.results import parse_row, scorecard

ROW: dict[str, Any] = {
    "metric": "models.speedup.s3fifo",
    "value": 4.1,
    "unit": "ratio",
    "better": "higher",
    "goal": 2.0,
    "reference": "a peer, same run",
    "reference_value": 4.4e6,
    "runs": 5,
    "spread": [3.9, 4.3],
    "command": "make bench-models",
    "commit": "0123abc",
    "machine": "two cores",
}


def write(folder: Path, *rows: object) -> None:
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(rows))


def test_a_row_is_read_whole() -> None:
    result = parse_row(ROW, "some", "here")
    assert {**ROW, "spread": (3.9, 4.3)}.items() <= result.as_json().items()
    assert result.status == "met"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"value": None}, "value"),
        ({"value": "4"}, "value"),
        ({"value": True}, "value"),
        ({"value": float("nan")}, "value"),
        ({"better": "more"}, "better"),
        ({"goal": "2"}, "goal"),
        ({"runs": 0}, "runs"),
        ({"runs": 1.5}, "runs"),
        ({"spread": [2, 1]}, "spread"),
        ({"spread": [1]}, "spread"),
        ({"metric": ""}, "metric"),
        ({"machine": 7}, "machine"),
        ({"reference": 7}, "reference"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_bad_row_is_refused_by_key(change: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=rf"^here: .*{key}"):
        parse_row({**ROW, **change}, "some", "here")


@pytest.mark.parametrize("key", sorted(set(ROW) - {"goal", "reference", "reference_value"}))
def test_a_missing_key_is_named(key: str) -> None:
    row = {name: value for name, value in ROW.items() if name != key}
    with pytest.raises(InputError, match=f"missing {key}"):
        parse_row(row, "some", "here")


def test_rows_that_miss_their_goal_come_first(tmp_path: Path) -> None:
    write(tmp_path / "a", {**ROW, "metric": "met"}, {**ROW, "metric": "free", "goal": None})
    write(
        tmp_path / "b",
        {**ROW, "metric": "short", "goal": 4.2},
        {**ROW, "metric": "shorter", "goal": 0.1, "better": "lower"},
    )
    rows = scorecard(tmp_path)
    assert [row.metric for row in rows] == ["shorter", "short", "met", "free"]
    assert [row.status for row in rows] == ["short", "short", "met", "no goal"]
    assert rows[0].experiment == "b"


def test_the_file_and_row_are_named(tmp_path: Path) -> None:
    write(tmp_path / "a", ROW, {**ROW, "runs": -1})
    with pytest.raises(InputError, match=r"a/results.json: row 2: runs"):
        scorecard(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", "\x00"])
def test_a_file_without_an_array_of_rows_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path / "a")
    (tmp_path / "a" / "results.json").write_text(text)
    with pytest.raises(InputError, match=r"a/results.json: "):
        scorecard(tmp_path)
