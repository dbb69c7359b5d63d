# SPDX-License-Identifier: Apache-2.0
"""Workloads defined by files in one folder per node: `FOLDER/NODE/*.toml`, like static pods.

The simulated agent runs the workloads in its folder (`tenants_dir`). Any other program that reads
such a folder works as well: this module reads only the key `cgroup` of a file, and keeps the file's
name.

Before the workload of `NAME.toml` moves, its new node can read its page cache. The progress is
represented by files in the same folders:

    HOME/NAME.list     order: write `NAME.pages` with what is cached, of so many bytes at most
    HOME/NAME.pages    the list of pages; the node that runs the workload has removed `NAME.list`
    TARGET/NAME.pages  order: read these pages into the page cache that the workload will have
    TARGET/NAME.warm   the pages are read: the target node renamed `NAME.pages`
"""

import errno
import os
import tomllib
from pathlib import Path

from cachepilot.domain.moving import Warmth
from cachepilot.fleet.moving.provider import MoveError, NoRoomError

SUFFIX = ".toml"
LIST, PAGES, WARM = ".list", ".pages", ".warm"
FULL = (errno.ENOSPC, errno.EDQUOT)
FILE_BYTES_MAX = 1 << 20
"""A longer file defines no workload; the agent has the same limit."""


class FolderProvider:
    """Moves a definition by a rename, which is atomic.

    All folders must therefore be on one file system.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _of(self, node: str) -> Path:
        if "/" in node or node.startswith("."):
            raise MoveError(f"node {node}: cannot be the name of a folder in {self._folder}")
        return self._folder / node

    def _nodes(self) -> list[Path]:
        try:
            return sorted(
                one
                for one in self._folder.iterdir()
                if one.is_dir() and not one.name.startswith(".")
            )
        except OSError as error:
            raise MoveError(f"{self._folder}: cannot be read: {error.strerror}") from None

    def _files(self, folder: Path) -> list[Path]:
        """Return the definitions in a folder."""
        try:
            names = sorted(one.name for one in folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise MoveError(f"{folder}: cannot be read: {error.strerror}") from None
        return [folder / one for one in names if one.endswith(SUFFIX) and not one.startswith(".")]

    def _file(self, folder: Path, cgroup: str) -> Path | None:
        """Return the definition of a workload in a folder, or None."""
        return next((one for one in self._files(folder) if _cgroup_of(one) == cgroup), None)

    def where(self, cgroup: str) -> str | None:
        """Return the node whose folder has the definition; see `Provider`."""
        found = [one.name for one in self._nodes() if self._file(one, cgroup) is not None]
        if len(found) > 1:
            raise MoveError(f"{cgroup}: is defined on several nodes: {', '.join(found)}")
        return found[0] if found else None

    def placed(self) -> dict[str, str]:
        """Return the node of every workload that exactly one folder defines; see `Provider`."""
        found: dict[str, set[str]] = {}
        for folder in self._nodes():
            for path in self._files(folder):
                cgroup = _cgroup_of(path)
                if isinstance(cgroup, str):
                    found.setdefault(cgroup, set()).add(folder.name)
        return {cgroup: next(iter(nodes)) for cgroup, nodes in found.items() if len(nodes) == 1}

    def move(self, cgroup: str, from_node: str, to_node: str) -> None:
        """Rename the definition into the other node's folder; see `Provider`."""
        home, target = self._of(from_node), self._of(to_node)
        path = self._defining(home, cgroup)
        goal = target / path.name
        try:
            if not target.is_dir():
                raise MoveError(f"node {to_node}: there is no folder {target}")
            # The rename would replace an existing file and so end the workload that it defines.
            if goal.exists():
                raise MoveError(f"{goal}: is there already: a file's name must be of one workload")
            # Files left without their definition would be taken for those of a workload that is to
            # come. They are removed again after the rename, because the node may be writing them.
            _remove(home, path.stem)
            path.rename(goal)
            _remove(home, path.stem)
            for changed in (target, home):
                _keep(changed)
        except OSError as error:
            raise _told(path, target, error) from None

    def _defining(self, home: Path, cgroup: str) -> Path:
        path = self._file(home, cgroup)
        if path is None:
            raise MoveError(f"{cgroup}: no file in {home} defines it")
        return path

    def warm(self, cgroup: str, from_node: str, to_node: str, most_bytes: int) -> Warmth:
        """Take the next step of the protocol in the module docstring; see `Provider`."""
        home, target = self._of(from_node), self._of(to_node)
        path = self._defining(home, cgroup)
        listed, goal = home / f"{path.stem}{PAGES}", target / f"{path.stem}{PAGES}"
        try:
            # Check in this order: the node may rename NAME.pages to NAME.warm between the two
            # checks.
            if goal.exists():
                return Warmth.READING
            if goal.with_suffix(WARM).exists():
                return Warmth.WARM
            if not target.is_dir():
                raise MoveError(f"node {to_node}: there is no folder {target}")
            if (target / path.name).exists():
                raise MoveError(f"{target / path.name}: is of another workload")
            if listed.exists():
                listed.rename(goal)
                return Warmth.READING
            order = listed.with_suffix(LIST)
            if not order.exists():
                _write(order, f"{most_bytes}\n")
        except OSError as error:
            raise _told(listed, target, error) from None
        return Warmth.LISTING

    def drop(self, cgroup: str) -> None:
        """Remove the protocol's files on all nodes, wherever the workload is; see `Provider`."""
        nodes = self._nodes()
        paths = (self._file(one, cgroup) for one in nodes)
        for name in {path.stem for path in paths if path is not None}:
            try:
                for folder in nodes:
                    _remove(folder, name)
            except OSError as error:
                why = f"its pages cannot be removed: {error.strerror}"
                raise MoveError(f"{cgroup}: {why}") from None


def _remove(folder: Path, name: str) -> None:
    """Remove all files of a workload except its definition."""
    for suffix in (LIST, PAGES, WARM):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    """Write a file that appears as a whole; readers ignore names that begin with a dot."""
    partial = path.with_name(f".{path.name}")
    partial.write_text(text, "utf-8")
    partial.rename(path)


def _cgroup_of(path: Path) -> object:
    """Return the cgroup that a file defines, or None if it cannot be read or is gone."""
    try:
        # Only regular files: reading a pipe might never end.
        if not path.is_file() or path.stat().st_size > FILE_BYTES_MAX:
            return None
        return tomllib.loads(path.read_text("utf-8")).get("cgroup")
    except (OSError, ValueError, RecursionError):
        return None


def _keep(folder: Path) -> None:
    """Make renames in a folder survive a power failure."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _told(path: Path, target: Path, error: OSError) -> MoveError:
    if error.errno == errno.EXDEV:
        allowed = "allowed: folders of one file system"
        return MoveError(f"{path}: {target} is on another file system ({allowed})")
    message = f"{path}: cannot be moved to {target}: {error.strerror}"
    return NoRoomError(message) if error.errno in FULL else MoveError(message)
