# SPDX-License-Identifier: Apache-2.0
"""Check the layers of the controller: which folder may import which, and the files per folder.

`BELOW` is the only place that states the order. Modules beside the folders are utilities: every
layer may import them, and they import only one another. Imports inside functions and under
TYPE_CHECKING count like others. An import by a computed name is not seen.
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
"""Layers by folder, with the layers right below each.

A layer may import these and everything below them.
"""
LOWEST = "domain"
WIRE = "v1"
"""The folder that is generated from the protocol. Every layer except the lowest may import it."""
NOT_LOWEST = frozenset(
    {"aiohttp", "fastapi", "flask", "grpc", "httpx", "pydantic", "requests", "starlette", "uvicorn"}
)
"""Interface libraries, which the values of the lowest layer must not import."""
SKIPPED = frozenset({WIRE, "dashboard", "__pycache__"})
FILES_MAX = 14


@dataclass(frozen=True)
class Import:
    """One import: its file and line, the name of the module, and the module's folder if it is ours.

    Folders and files are relative to the package. The folder of a utility is `.`.
    """

    file: PurePosixPath
    line: int
    module: str
    folder: PurePosixPath | None


def layer(folder: PurePosixPath) -> str:
    """Return the layer of a folder; empty for the folder of the utilities."""
    return folder.parts[0] if folder.parts else ""


def all_below(name: str) -> frozenset[str]:
    """Return every layer below one, directly or further down."""
    found: set[str] = set()
    waiting = list(BELOW.get(name, ()))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += BELOW[one]
    return frozenset(found)


def _named(tree: ast.Module, package: str, file: PurePosixPath) -> Iterator[tuple[int, str]]:
    """Yield the line and module of each import of a file.

    A name that is imported from a module is appended to the module's name.
    """
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
    """Return the folder of a module of the package, or of the module that contains this name.

    Returns None for a name outside the package.
    """
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
    """Return every source file of the package that is not generated, relative to the package."""
    found = (PurePosixPath(path.relative_to(root).as_posix()) for path in root.rglob("*.py"))
    return sorted(one for one in found if not SKIPPED.intersection(one.parts))


def imports(root: Path, file: PurePosixPath) -> list[Import]:
    """Return the imports of a file. Raises SyntaxError if it is not Python."""
    tree = ast.parse((root / file).read_text("utf-8"), str(file))
    named = sorted(set(_named(tree, root.name, file)))
    return [Import(file, line, module, _folder(root, module)) for line, module in named]


def _why_not(one: Import) -> str:
    """Return what is wrong with an import; empty if it points down."""
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
    allowed = ", ".join(name for name in BELOW if name in all_below(here)) or "only utilities"
    return f"{here or 'a utility'} must not import {there} (allowed: {allowed})"


def _in_layer(folder: PurePosixPath) -> str:
    """Return the name of a folder in the graph of imports."""
    return str(PurePosixPath(layer(folder), *folder.parts[1:]))


def _cycle(every: list[Import]) -> list[str]:
    """Return the first circle of folders that import one another; empty if there is none.

    A folder and a folder inside it are two nodes of the graph.
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
    """Return the offences of the package at `root`, one line each: order, circles, folder sizes."""
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
