# SPDX-License-Identifier: Apache-2.0
"""The text that the prose linter gets of a source: only what people see, at its place."""

import importlib.util
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from docs_examples import ROOT

FOLDER = ROOT / "scripts" / "words"
TEXTLINT = FOLDER / "node_modules" / ".bin" / "textlint"


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("shown_words", FOLDER / "shown.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


shown_words = _load()
PYTHON = '''
"""A page of words."""
SQL = "SELECT words FROM pages"
key = "key"
say(f"the node {node.held} is ready", level="two words")  # a comment of words
'''
RUST = """
/// What an option does.
let name = "name";
println!("no such {name} here"); // a comment of words
"""
SVELTE = """
<script>let word = "word"; const told = "two words";</script>
<p class="dim">Seen by {count} people</p>
<style>p { color: red; }</style>
"""


PRIVATE = (
    "The promise of a tenant is kept.",
    "Its course is stored.",
    "Curves that are not trusted.",
    "Nodes that can be emptied.",
    "Who has no SLO loses to who has one.",
    "A change that was taken back.",
    "The agent is away.",
    "The page is read anew.",
)
PLAIN = "The SLO is met, of course; `promise` is a name, and the lock is held."


def _place(text: str, part: str) -> tuple[int, int]:
    """Return the line and the column of a part of a text."""
    before = text[: text.index(part)]
    return before.count("\n"), len(before) - (before.rfind("\n") + 1)


@pytest.mark.parametrize(
    ("name", "source", "seen"),
    [
        ("a.py", PYTHON, ['"""A page of words."""', 'f"the node', 'is ready"', '"two words"']),
        ("a.rs", RUST, ["What an option does.", '"no such', 'here"']),
        ("a.svelte", SVELTE, ['"two words"', "Seen by", "people"]),
        ("a.toml", "# all of it\nkey = 1\n", ["# all of it", "key = 1"]),
    ],
)
def test_shown_text_stays_in_its_place_and_the_rest_is_blank(
    name: str, source: str, seen: list[str]
) -> None:
    found = shown_words.shown(Path(name), source)
    assert found.split() == " ".join(seen).split()
    for text in seen:
        assert _place(found, text) == _place(source, text)


def test_private_words_are_refused_and_plain_ones_are_not(tmp_path: Path) -> None:
    subprocess.run([FOLDER / "check", "--install"], check=True, capture_output=True)
    for name, text in enumerate((PLAIN, *PRIVATE)):
        (tmp_path / f"{name}.md").write_text(f"{text}\n", "utf-8")
    config = str(FOLDER / ".textlintrc.json")
    command = [str(TEXTLINT), "--config", config, "--format", "unix", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    refused = {int(name) for name in re.findall(r"/(\d+)\.md:", done.stdout)}
    assert refused == set(range(1, len(PRIVATE) + 1)), done.stdout + done.stderr
