# SPDX-License-Identifier: Apache-2.0
"""The measured figures of the documentation equal the rows that they name."""

import re
import subprocess
import sys

import pytest
from docs_examples import ROOT
from figures import FIGURE, Rows, differences, pages, rewritten, shown_as

from cachepilot.errors import InputError
from cachepilot.results import Result, scorecard

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows(tuple(scorecard(ROOT / "experiments")))


def row(metric: str, value: float, goal: float | None = None) -> Result:
    spread = (value - 0.5, value + 0.5)
    told = ("run", "0123456789ab", "here")
    return Result("e", metric, value, "ratio", "higher", goal, None, 4.0, 3, spread, *told)


SOME = Rows((row("a.x", 2.4204, 2.0), row("a.y", 1.0, 2.0), row("b", 12345.6)))


def test_the_figures_of_the_documentation_are_those_of_the_rows() -> None:
    command = [sys.executable, "scripts/figures.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("2.9<!-- a.x -->", "2.4<!-- a.x -->"),
        ("**9%**<!-- a.y x100 -->", "**100%**<!-- a.y x100 -->"),
        ("+0.00<!-- a.x -->", "+2.42<!-- a.x -->"),
        ("1<!-- b -->", "12,346<!-- b -->"),
        ("1.0<!-- a.x least -->", "1.9<!-- a.x least -->"),
        ("1<!-- a.x goal -->", "2<!-- a.x goal -->"),
        ("1<!-- max a.* -->", "2<!-- max a.* -->"),
        ("9<!-- met a.* --> of 9<!-- rows a.* -->", "1<!-- met a.* --> of 2<!-- rows a.* -->"),
    ],
)
def test_a_figure_becomes_what_its_row_says(text: str, becomes: str) -> None:
    assert list(differences(text, SOME))
    assert rewritten(text, SOME) == becomes
    assert not list(differences(becomes, SOME))


@pytest.mark.parametrize("source", ["a.z", "a.*", "b goal", "A figure", "1 + a.x"])
def test_a_comment_that_names_no_figure_is_refused(source: str) -> None:
    with pytest.raises(InputError):
        rewritten(f"1<!-- {source} -->", SOME)


def test_decimals_and_sign_are_those_of_the_page() -> None:
    assert [shown_as(0.0114, like) for like in ("0.0098", "0.1", "+3")] == ["0.0114", "0.0", "+0"]


def _measured_cells() -> list[str]:
    """Return the cells of the README's tables of results, without the first column."""
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.split("## Results\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [cell for line in lines for cell in line.strip("|").split("|")[1:]]


def test_every_figure_of_the_readmes_tables_names_its_row() -> None:
    cells = _measured_cells()
    assert sum(len(FIGURE.findall(cell)) for cell in cells) > 40
    for cell in cells:
        plain = FIGURE.sub("", cell).replace("read of 4 KiB", "").replace("at 10% of", "")
        assert not NUMBER.search(re.sub(r"`[^`]*`", "", plain)), cell


def test_bold_figures_are_those_that_miss_their_goal(rows: Rows) -> None:
    by_metric = {one.metric: one for one in rows.rows}
    text = (ROOT / "README.md").read_text("utf-8")
    checked = 0
    for found in FIGURE.finditer(text):
        result = by_metric.get(found["row"].removesuffix(" x100"))
        if result is not None:
            assert found["after"].endswith("**") == (result.status == "short"), found["row"]
            checked += 1
    assert checked > 20


def test_no_marker_of_a_figure_is_without_a_figure() -> None:
    """A comment that names a row but follows no number would never be compared."""
    for page in pages():
        text = page.read_text("utf-8")
        markers = re.findall(r"<!-- (?:[\w-]+ )?[a-z_]+\.[\w.*]+[^>]*-->", text)
        assert len(markers) <= len(FIGURE.findall(text)), page
