# SPDX-License-Identifier: Apache-2.0
"""Parses `strace -f -y -s 0 --absolute-timestamps=unix,ns` into completed system calls."""

import re
from dataclasses import dataclass

LINE = re.compile(r"^(\d+) +(\d+)\.(\d{9}) (.*)$")
UNFINISHED = re.compile(r"^(\w+)\((.*)<unfinished \.\.\.>$")
RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>(.*)$")
SUPERSEDED = re.compile(r"superseded by execve in pid (\d+)")
RESULT = re.compile(r"^\s*= (-?\d+|0x[0-9a-f]+|\?)(?:<([^>]*)>)?(\(deleted\))?")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"(?:\.\.\.)?|<[^>]*>|[^"<,(){}\[\]]+|.')
ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-f]{2}|.)")
NAMED = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}
DESCRIPTOR = re.compile(r"^(\d+)(?:<([^>]*)>)?(\(deleted\))?$")


@dataclass(frozen=True)
class Call:
    """A system call that returned."""

    task: int
    time_ns: int
    name: str
    args: list[str]
    result: int
    result_path: str | None


@dataclass(frozen=True)
class Exit:
    """The end of a task."""

    task: int


def unescape(text: str) -> str:
    """Convert a path as strace prints it to the path itself."""

    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "x":
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if code[0] in "01234567" else NAMED.get(code, code)

    # Escapes stand for bytes. Bytes that are not UTF-8 become surrogates, which os functions
    # accept.
    return ESCAPE.sub(character, text).encode("latin-1").decode("utf-8", "surrogateescape")


def descriptor(text: str) -> tuple[int, str | None]:
    """Parse `3</a/b>` as (3, "/a/b"); (-1, None) if it is not a descriptor."""
    found = DESCRIPTOR.match(text)
    if not found:
        return -1, None
    path = unescape(found[2]) if found[2] and not found[3] else None
    return int(found[1]), path


def _split_call(text: str) -> tuple[list[str], str] | None:
    """Parse `a, [b, c]) = 0` as (["a", "[b, c]"], " = 0"); None if no parenthesis closes it."""
    args = [""]
    depth = at = 0
    while token := TOKEN.match(text, at):
        at = token.end()
        part = token[0]
        if part == ")" and depth == 0:
            return [arg.strip() for arg in args], text[at:]
        depth += (part in "([{") - (part in ")]}")
        if part == "," and depth == 0:
            args.append("")
        else:
            args[-1] += part
    return None


class Parser:
    """Joins the two halves of interrupted calls. Each strace output needs its own instance."""

    def __init__(self) -> None:
        self.lines_not_understood = 0
        self._unfinished: dict[int, tuple[str, str]] = {}

    def parse(self, line: str) -> Call | Exit | None:
        """Return the call that `line` completes, the end of a task, or None for anything else."""
        found = LINE.match(line)
        if not found:
            self.lines_not_understood += 1
            return None
        task, time_ns = int(found[1]), int(found[2]) * 10**9 + int(found[3])
        text = found[4]
        if text.startswith(("+++", "---")):
            return self._ended(task, text) if text[0] == "+" else None
        if half := UNFINISHED.match(text):
            return self._interrupted(task, time_ns, half[1], half[2])
        if half := RESUMED.match(text):
            name, start = self._unfinished.pop(task, ("", ""))
            if name == half[1] == "close":
                return None
            return self._call(task, time_ns, half[1], start + half[2], name == half[1])
        name, _, rest = text.partition("(")
        return self._call(task, time_ns, name, rest)

    def _ended(self, task: int, text: str) -> Exit | None:
        if found := SUPERSEDED.search(text):
            # A thread that calls execve continues under the id of its process.
            self._unfinished[task] = self._unfinished.pop(int(found[1]), ("", ""))
            return None
        self._unfinished.pop(task, None)
        return Exit(task)

    def _interrupted(self, task: int, time_ns: int, name: str, start: str) -> Call | None:
        self._unfinished[task] = (name, start)
        if name != "close":
            return None
        # Another thread may get the descriptor number before strace reports that this close
        # returned.
        return self._call(task, time_ns, name, start.rstrip() + ") = 0")

    def _call(
        self, task: int, time_ns: int, name: str, rest: str, known: bool = True
    ) -> Call | None:
        split = _split_call(rest) if known else None
        result = RESULT.match(split[1]) if split else None
        if not split or not result:
            self.lines_not_understood += 1
            return None
        value = -1 if result[1] == "?" else int(result[1], 0)
        path = unescape(result[2]) if result[2] and not result[3] else None
        return Call(task, time_ns, name, split[0], value, path)
