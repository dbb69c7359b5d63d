# SPDX-License-Identifier: Apache-2.0
"""Every README states what its policy costs in the kernel, as scripts/policy_costs.py writes it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cachepilot import manifest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "policy_costs.py"
ROW = re.compile(r"^\| (\w+) \| [\d,]+ \| [\d,]+ \|$", re.MULTILINE)
IN_KERNEL = [p for p in manifest.policies().values() if not p.simulation_only]

README = "# Sample\n\nA policy.\n"


@pytest.mark.parametrize("policy", IN_KERNEL, ids=lambda policy: policy.name)
def test_a_readme_has_the_cost_of_every_hook(policy: manifest.Policy) -> None:
    readme = (ROOT / "bpf" / "policies" / policy.name / "README.md").read_text()
    section = readme.partition("\n## In the kernel\n")[2]
    assert ROW.findall(section) == list(policy.hooks), "run scripts/policy_costs.py"


def verdicts(path: Path, refused: bool = False, **hooks: int) -> Path:
    """Write a file in the format of `policy verify --json`."""
    costs = [
        {"hook": hook, "verified_instructions": count, "jited_bytes": 5 * count}
        for hook, count in hooks.items()
    ]
    verdict = {"policy": "sample", "hooks": costs, "refused": ["R1 is no folio"] * refused}
    path.write_text(json.dumps([verdict]))
    return path


def policy_costs(folder: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, SCRIPT, "--policies", folder, *arguments]
    return subprocess.run([str(a) for a in command], capture_output=True, text=True, check=False)


@pytest.fixture
def readme(tmp_path: Path) -> Path:
    path = tmp_path / "sample" / "README.md"
    path.parent.mkdir()
    path.write_text(README)
    return path


def test_a_section_is_written_and_replaced(tmp_path: Path, readme: Path) -> None:
    first = verdicts(tmp_path / "first.json", init=10, evict_folios=1234)
    assert policy_costs(tmp_path, first).returncode == 0
    text = readme.read_text()
    assert text.startswith(README) and "\n| evict_folios | 1,234 | 6,170 |\n" in text
    assert policy_costs(tmp_path, "--check", first).returncode == 0
    assert policy_costs(tmp_path, verdicts(tmp_path / "second.json", init=99)).returncode == 0
    assert readme.read_text().count("## In the kernel") == 1
    assert ROW.findall(readme.read_text()) == ["init"]


def test_a_check_lists_outdated_figures_and_changes_nothing(tmp_path: Path, readme: Path) -> None:
    policy_costs(tmp_path, verdicts(tmp_path / "old.json", init=1000))
    text = readme.read_text()
    near = verdicts(tmp_path / "near.json", init=1050)
    assert policy_costs(tmp_path, "--check", near).returncode == 0
    far = policy_costs(tmp_path, "--check", verdicts(tmp_path / "far.json", init=1500))
    assert far.returncode == 1
    assert "sample: init: verified instructions are 1,500; the README has 1,000" in far.stdout
    more = policy_costs(tmp_path, "--check", verdicts(tmp_path / "more.json", init=1000, exit=1))
    assert more.returncode == 1 and "hooks are init, exit" in more.stdout
    assert readme.read_text() == text


def test_a_refused_policy_is_an_error(tmp_path: Path, readme: Path) -> None:
    refused = policy_costs(tmp_path, verdicts(tmp_path / "refused.json", refused=True))
    assert refused.returncode == 1 and "the kernel refuses sample" in refused.stderr
    assert readme.read_text() == README
