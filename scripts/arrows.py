# SPDX-License-Identifier: Apache-2.0
"""The layers of the controller: which folder may import which, and how many files a folder has.

`BELOW` is the order, and the only place that states it. Modules beside the folders are utilities:
every layer may import them, and they import one another alone. Imports inside functions and under
TYPE_CHECKING count like others; what is imported by a name that is computed is not seen.
"""

import ast
import graphlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

BELOW: dict[str, tuple[str, ...]] = {
    "cli": ("api", "openslo", "vm"),
    "api": ("fleet",),
    "fleet": ("node",),
    "node": ("decide", "store"),
    "decide": ("plan",),
    "plan": ("model",),
    "model": ("sense",),
    "sense": ("domain",),
    "store": ("domain",),
    "openslo": ("domain",),
    "vm": (),
    "domain": (),
}
"""Layers by folder, with those right below each; it may import these and all that is below them."""
LOWEST = "domain"
WIRE = "v1"
"""Generated from the protocol, and open to every layer but the lowest."""
NOT_LOWEST = frozenset(
    {"aiohttp", "fastapi", "flask", "grpc", "httpx", "pydantic", "requests", "starlette", "uvicorn"}
)
"""Libraries of interfaces, which values of the lowest layer know nothing of."""
SKIPPED = frozenset({WIRE, "dashboard", "__pycache__"})
FILES_MAX = 14


@dataclass(frozen=True)
class Import:
    """One import: the file and its line, the module as it is named, and its folder if ours.

    Folders and files are relative to the package; the folder of a utility is `.`.
    """

    file: PurePosixPath
    line: int
    module: str
    folder: PurePosixPath | None


def layer(folder: PurePosixPath) -> str:
    """The layer of a folder; empty for that of the utilities."""
    return folder.parts[0] if folder.parts else ""


def all_below(name: str) -> frozenset[str]:
    """Every layer below one, whether right below it or further down."""
    found: set[str] = set()
    waiting = list(BELOW.get(name, ()))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += BELOW[one]
    return frozenset(found)


def _named(tree: ast.Module, package: str, file: PurePosixPath) -> Iterator[tuple[int, str]]:
    """Lines and modules of a file's imports; a name that is taken from a module is joined to it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield node.lineno, one.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = (package, *file.parent.parts)
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join((*parts, base)).rstrip(".")
            for one in node.names:
                yield node.lineno, f"{base}.{one.name}"


def _folder(root: Path, module: str) -> PurePosixPath | None:
    """The folder of a module of ours, or of the module that has a name of this one; else None."""
    package, *rest = module.split(".")
    if package != root.name:
        return None
    for length in range(len(rest), 0, -1):
        path = PurePosixPath(*rest[:length])
        if (root / path).is_dir():
            return path
        if (root / path).with_suffix(".py").is_file():
            return path.parent
    return PurePosixPath()


def files(root: Path) -> list[PurePosixPath]:
    """Every source file of the package that is not generated, relative to it."""
    found = (PurePosixPath(path.relative_to(root).as_posix()) for path in root.rglob("*.py"))
    return sorted(one for one in found if not SKIPPED.intersection(one.parts))


def imports(root: Path, file: PurePosixPath) -> list[Import]:
    """What one file imports; raises SyntaxError for what is not Python."""
    tree = ast.parse((root / file).read_text("utf-8"), str(file))
    named = sorted(set(_named(tree, root.name, file)))
    return [Import(file, line, module, _folder(root, module)) for line, module in named]


def _why_not(one: Import) -> str:
    """What is wrong with one import; empty when it points down."""
    here = layer(one.file.parent)
    if one.folder is None:
        library = one.module.partition(".")[0]
        if here == LOWEST and library in NOT_LOWEST:
            return f"{LOWEST} must not know {library}"
        return ""
    there = layer(one.folder)
    if there == WIRE:
        knows = here in BELOW and here != LOWEST
        return "" if knows else f"{here or 'a utility'} must not know the protocol"
    if there in ("", here) or there in all_below(here):
        return ""
    allowed = ", ".join(name for name in BELOW if name in all_below(here)) or "utilities alone"
    return f"{here or 'a utility'} must not import {there} (allowed: {allowed})"


def _in_layer(folder: PurePosixPath) -> str:
    """A folder below that of its layer."""
    return str(PurePosixPath(layer(folder), *folder.parts[1:]))


def _cycle(every: list[Import]) -> list[str]:
    """Folders that import one another in a circle: the first circle that is found, or nothing.

    A folder and one inside it are two. Folders on their way to another layer count as that one.
    """
    graph: dict[str, set[str]] = {}
    for one in every:
        if one.folder is None or WIRE in one.folder.parts:
            continue
        here, there = _in_layer(one.file.parent), _in_layer(one.folder)
        if here != there and one.folder.parts:
            graph.setdefault(here, set()).add(there)
    try:
        graphlib.TopologicalSorter({one: sorted(graph[one]) for one in sorted(graph)}).prepare()
    except graphlib.CycleError as error:
        return [f"folders import one another: {' <- '.join(error.args[1])}"]
    return []


def _sizes(found: list[PurePosixPath]) -> Iterator[str]:
    for folder in sorted({one.parent for one in found}):
        count = sum(one.parent == folder for one in found)
        if count > FILES_MAX:
            yield f"{folder}: {count} files, at most {FILES_MAX} are allowed"


def offences(root: Path) -> list[str]:
    """What is wrong with the package at `root`, one line each: order, circles, sizes of folders."""
    found = files(root)
    tops = {one.parts[0] for one in found if len(one.parts) > 1}
    known = set(BELOW)
    wrong = [f"{root.name}/{top}: has no place in the order" for top in sorted(tops - known)]
    every = [one for file in found for one in imports(root, file)]
    for one in every:
        why = _why_not(one)
        if why:
            wrong.append(f"{root.name}/{one.file}:{one.line}: {one.module}: {why}")
    wrong += [f"{root.name}: {line}" for line in _cycle(every)]
    wrong += [f"{root.name}/{line}" for line in _sizes(found)]
    return wrong
