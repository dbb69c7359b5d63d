# SPDX-License-Identifier: Apache-2.0
"""Every policy folder is complete and described, and the folders are the only list of policies."""

import tomllib
from pathlib import Path

import pytest

from cachepilot import manifest

BPF = Path(__file__).parent.parent / "bpf"
FOLDERS = sorted(path for path in (BPF / "policies").glob("*") if path.is_dir())
READAHEAD = sorted(path for path in (BPF / "prefetch").glob("*") if path.is_dir())


def test_the_extension_holds_exactly_the_folders() -> None:
    assert sorted(manifest.policies()) == [folder.name for folder in FOLDERS]


@pytest.mark.parametrize("folder", FOLDERS + READAHEAD, ids=lambda folder: folder.name)
def test_a_policy_folder_is_complete(folder: Path) -> None:
    files = {path.name for path in folder.iterdir()}
    assert {"policy.bpf.c", "policy.toml", "README.md"} <= files
    assert tomllib.loads((folder / "policy.toml").read_text())["name"] == folder.name


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_manifest_says_what_the_policy_is(folder: Path) -> None:
    policy = manifest.find(folder.name)
    for text in (policy.title, policy.summary, policy.good_at, policy.bad_at):
        assert text.strip()
    assert not (policy.production and policy.simulation_only)
    for tunable in policy.tunables:
        assert tunable.min <= tunable.default <= tunable.max
        assert tunable.length >= 1
        assert tunable.description


def test_readahead_policies_are_listed_in_their_page() -> None:
    page = (BPF.parent / "docs" / "reference" / "readahead_policies.md").read_text()
    for folder in READAHEAD:
        assert f"(../../bpf/prefetch/{folder.name}/README.md)" in page
        assert tomllib.loads((folder / "policy.toml").read_text())["paper"].strip()
