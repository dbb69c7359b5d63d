# SPDX-License-Identifier: Apache-2.0
"""Write what the programs show to people, for a prose linter: a file per source in build/words.

Kept are: in Python the string literals and docstrings (help, messages, log lines, descriptions of
the API), in Svelte and TypeScript the text and the string literals, in Rust the string literals and
the documentation of command-line options, in configurations everything. Kept text stays at its line
and column, so that a finding names its place in the source.
"""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "words"
SOURCES = (
    "controller/cachepilot/*.py",
    "controller/dashboard/src/*.svelte",
    "controller/dashboard/src/*.ts",
    "agent/src/*.rs",
    "configs/*.toml",
    "configs/*.yml",
    "configs/*.yaml",
    "configs/*.json",
)
SQL = re.compile(r"\s*(SELECT|INSERT|CREATE|DELETE|UPDATE|ALTER|DROP|PRAGMA|WITH|REPLACE)\b")
LITERAL = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`")
RUST_LITERAL = re.compile(r"\"(?:[^\"\\]|\\.)*\"")
RUST_HELP = re.compile(r"^\s*//[/!] ?(.*)$", re.MULTILINE)
NOT_TEXT = re.compile(
    r"<script.*?</script>|<style.*?</style>|<!--.*?-->|\{[^{}]*\}|<[^>]*>", re.DOTALL
)
# Names and expressions within a text are blanked; columns stay.
CODE = re.compile(r"`[^`\n]*`|\$?\{[^{}\n]*\}")
Span = tuple[int, int]


def _offsets(text: str) -> list[int]:
    """Return the offset of each line."""
    found = [0]
    for line in text.splitlines(keepends=True):
        found.append(found[-1] + len(line))
    return found


def python_spans(text: str) -> Iterator[Span]:
    """Yield the string literals of more than one word, except SQL."""
    starts, lines = _offsets(text), text.splitlines()

    def at(line: int, column: int) -> int:
        # Columns of the syntax tree count bytes.
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_prose = " " in node.value.strip() and not SQL.match(node.value)
            if is_prose and node.end_lineno is not None and node.end_col_offset is not None:
                yield at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)


def script_spans(text: str) -> Iterator[Span]:
    """Yield the string literals of more than one word."""
    for found in LITERAL.finditer(text):
        if " " in found[0].strip():
            yield found.span()


def svelte_spans(text: str) -> Iterator[Span]:
    """Yield the text of a Svelte page, and the string literals of its code and tags."""
    yield from script_spans(text)
    end = 0
    for found in NOT_TEXT.finditer(text):
        yield end, found.start()
        end = found.end()
    yield end, len(text)


def rust_spans(text: str) -> Iterator[Span]:
    """Yield the string literals of more than one word, and the comments that become help."""
    for found in RUST_LITERAL.finditer(text):
        if " " in found[0].strip():
            yield found.span()
    yield from (found.span(1) for found in RUST_HELP.finditer(text))


def all_of(text: str) -> Iterator[Span]:
    """Yield the whole text."""
    yield 0, len(text)


SPANS = {
    ".py": python_spans,
    ".ts": script_spans,
    ".svelte": svelte_spans,
    ".rs": rust_spans,
}


def shown(path: Path, text: str) -> str:
    """Return a source's text in which everything that is not shown is blank."""
    kept = ["\n" if letter == "\n" else " " for letter in text]
    for start, end in SPANS.get(path.suffix, all_of)(text):
        kept[start:end] = text[start:end]
    if path.suffix in SPANS:
        for found in CODE.finditer(text):
            kept[found.start() : found.end()] = " " * len(found[0])
    return "\n".join(line.rstrip() for line in "".join(kept).split("\n"))


def sources() -> list[Path]:
    """Return the files of these folders that git would track, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *SOURCES]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in listed.splitlines() if (ROOT / name).is_file()]


def main() -> None:
    """Write all files, and remove those of an earlier run."""
    shutil.rmtree(OUT, ignore_errors=True)
    for path in sources():
        target = OUT / f"{path}.shown"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(shown(path, (ROOT / path).read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
