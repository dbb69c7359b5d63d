# SPDX-License-Identifier: Apache-2.0
"""Workload definitions in a folder per node: how they are found, moved and refused."""

import errno
import os
from pathlib import Path

import pytest

from cachepilot.domain.moving import Warmth
from cachepilot.fleet.moving.folder import FolderProvider
from cachepilot.fleet.moving.provider import MoveError, NoRoomError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for node in ("a", "b", "c"):
        (tmp_path / node).mkdir()
    (tmp_path / "a" / "kv.toml").write_text('cgroup = "/kv"\nlimit_bytes = 1\n')
    (tmp_path / "a" / "web.toml").write_text('cgroup = "/web"\n')
    (tmp_path / "b" / "broken.toml").write_text("cgroup =")
    (tmp_path / "b" / ".kv.toml").write_text('cgroup = "/kv"\n')
    (tmp_path / "b" / "note.txt").write_text('cgroup = "/kv"\n')
    return tmp_path


def test_a_workload_moves_as_a_whole(folder: Path) -> None:
    provider = FolderProvider(folder)
    inode = (folder / "a" / "kv.toml").stat().st_ino
    assert (provider.where("/kv"), provider.where("/none")) == ("a", None)
    provider.move("/kv", "a", "b")
    assert provider.where("/kv") == "b"
    assert (folder / "b" / "kv.toml").stat().st_ino == inode
    assert not (folder / "a" / "kv.toml").exists()
    provider.move("/kv", "b", "a")
    assert provider.where("/kv") == "a"


@pytest.mark.parametrize(
    ("move", "words"),
    [
        (("/none", "a", "b"), "no file in"),
        (("/kv", "b", "c"), "no file in"),
        (("/kv", "a", "d"), "there is no folder"),
        (("/kv", "a", "../b"), "cannot be the name of a folder"),
    ],
)
def test_a_tenant_that_cannot_be_moved_is_named(
    folder: Path, move: tuple[str, str, str], words: str
) -> None:
    provider = FolderProvider(folder)
    with pytest.raises(MoveError, match=words):
        provider.move(*move)
    assert provider.where("/kv") == "a"


def test_a_file_of_the_same_name_is_never_replaced(folder: Path) -> None:
    (folder / "b" / "kv.toml").write_text('cgroup = "/other"\n')
    provider = FolderProvider(folder)
    with pytest.raises(MoveError, match="is there already"):
        provider.move("/kv", "a", "b")
    assert (provider.where("/kv"), provider.where("/other")) == ("a", "b")
    assert provider.placed() == {"/kv": "a", "/web": "a", "/other": "b"}


def test_a_tenant_with_two_definitions_is_refused(folder: Path) -> None:
    (folder / "c" / "again.toml").write_text('cgroup = "/kv"\n')
    with pytest.raises(MoveError, match="on several nodes: a, c"):
        FolderProvider(folder).where("/kv")
    assert FolderProvider(folder).placed() == {"/web": "a"}


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.ENOSPC, NoRoomError, "No space left"),
        (errno.EXDEV, MoveError, "allowed: folders of one file system"),
        (errno.EROFS, MoveError, "Read-only"),
    ],
)
def test_a_refusal_by_the_file_system_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[MoveError], words: str
) -> None:
    def refused(self: Path, target: Path) -> Path:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(kind, match=words):
        FolderProvider(folder).move("/kv", "a", "b")


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(MoveError, match="cannot be read"):
        FolderProvider(tmp_path / "none").where("/kv")


def test_pages_are_listed_at_home_and_read_on_the_target(folder: Path) -> None:
    provider = FolderProvider(folder)
    home, target = folder / "a", folder / "b"
    assert provider.warm("/kv", "a", "b", 12288) is Warmth.LISTING
    assert (home / "kv.list").read_text() == "12288\n"
    assert provider.warm("/kv", "a", "b", 12288) is Warmth.LISTING
    # The node at home answers.
    (home / "kv.pages").write_text("7 1 /kv\n")
    (home / "kv.list").unlink()
    assert provider.warm("/kv", "a", "b", 12288) is Warmth.READING
    assert not (home / "kv.pages").exists()
    assert (target / "kv.pages").read_text() == "7 1 /kv\n"
    assert provider.warm("/kv", "a", "b", 12288) is Warmth.READING
    # The target has read the pages.
    (target / "kv.pages").rename(target / "kv.warm")
    assert provider.warm("/kv", "a", "b", 12288) is Warmth.WARM
    provider.move("/kv", "a", "b")
    assert sorted(one.name for one in home.iterdir()) == ["web.toml"]
    assert (target / "kv.warm").exists(), "whoever runs the workload removes it"


def test_ordered_page_lists_can_be_dropped(folder: Path) -> None:
    provider = FolderProvider(folder)
    provider.warm("/kv", "a", "b", 4096)
    (folder / "b" / "kv.pages").write_text("7 1 /kv\n")
    provider.drop("/kv")
    assert [one for node in "ab" for one in (folder / node).glob("kv.*")] == [
        folder / "a" / "kv.toml"
    ]
    provider.drop("/kv")


def test_unread_page_lists_are_removed_by_a_move(folder: Path) -> None:
    provider = FolderProvider(folder)
    provider.warm("/kv", "a", "b", 4096)
    (folder / "a" / "kv.pages").write_text("7 1 /kv\n")
    provider.move("/kv", "a", "b")
    assert sorted(one.name for one in (folder / "a").iterdir()) == ["web.toml"]


def test_pages_of_what_is_not_there_are_refused(folder: Path) -> None:
    provider = FolderProvider(folder)
    with pytest.raises(MoveError, match="no file in"):
        provider.warm("/none", "a", "b", 4096)
    with pytest.raises(MoveError, match="there is no folder"):
        provider.warm("/kv", "a", "d", 4096)


def test_pages_are_dropped_wherever_the_workload_is(folder: Path) -> None:
    provider = FolderProvider(folder)
    provider.warm("/kv", "a", "b", 4096)
    (folder / "b" / "kv.warm").write_text("7 1 /kv\n")
    # Others moved the definition meanwhile.
    (folder / "a" / "kv.toml").rename(folder / "c" / "kv.toml")
    provider.drop("/kv")
    assert [one.name for one in folder.rglob("kv.*")] == ["kv.toml"]
    provider.drop("/none")


def test_pages_are_not_read_beside_another_workload_of_that_name(folder: Path) -> None:
    (folder / "b" / "kv.toml").write_text('cgroup = "/other"\n')
    with pytest.raises(MoveError, match="is of another workload"):
        FolderProvider(folder).warm("/kv", "a", "b", 4096)
