# SPDX-License-Identifier: Apache-2.0
"""Follow the installation pages of the documentation in a root folder of the test."""

import configparser
import re
import subprocess
from pathlib import Path

import pytest
from docs_examples import ROOT, installing

PAGES = sorted({one.page for one in installing()})
# The commands as typed; whatever they write goes below another root.
PROLOGUE = """
sudo() { "$@"; }
systemd-sysusers() { command systemd-sysusers --root="$root" "$@"; }
"""


def install(page: str, root: Path) -> None:
    """Run the commands of one page."""
    lines = [one.line for one in installing() if one.page == page]
    moved = [re.sub(r"(?<= )/(?=(usr|etc)/)", '"$root"/', line) for line in lines]
    (root / "etc").mkdir(exist_ok=True)
    done = subprocess.run(
        ["bash", "-euc", PROLOGUE + "\n".join(moved)],
        cwd=ROOT,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "root": str(root)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_controllers_unit_finds_its_user_and_its_configuration(tmp_path: Path) -> None:
    install("docs/operating/install.md", tmp_path)
    unit = configparser.RawConfigParser(strict=False)
    unit.read(tmp_path / "etc/systemd/system/cachepilot-controller.service", "utf-8")
    users = (tmp_path / "etc/passwd").read_text("utf-8")
    assert re.search(rf"(?m)^{unit['Service']['User']}:", users)
    wanted = unit["Unit"]["ConditionPathExists"]
    assert (tmp_path / wanted.lstrip("/")).is_file()
    assert wanted in unit["Service"]["ExecStart"]


def test_the_agent_alone_finds_its_policies(tmp_path: Path) -> None:
    install("docs/operating/kernel.md", tmp_path)
    program = tmp_path / "usr/local/bin/cachepilot-agent"
    done = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("cachepilot-agent ")
    installed = {path.name for path in (tmp_path / "usr/lib/cachepilot/bpf").iterdir()}
    assert {path.name for path in (ROOT / "build/bpf").glob("*.bpf.o")} <= installed


@pytest.mark.parametrize("page", PAGES)
def test_every_page_that_installs_is_followed(page: str) -> None:
    assert page in ("docs/operating/install.md", "docs/operating/kernel.md")


def test_the_removal_names_all_that_the_installation_makes() -> None:
    shown = (ROOT / "docs/operating/going_back.md").read_text("utf-8")
    lines = re.findall(r"(?m)^sudo (.*)$", shown)
    words = [line.split() for line in lines]
    folders = {one for line in words if line[:2] == ["rm", "-r"] for one in line[2:]}
    files = {one for line in words if line[0] == "rm" for one in line[1:]}
    installed = (ROOT / "docs/operating/install.md").read_text("utf-8")
    paths = re.findall(r"(?m)^sudo (?:install -D|ln -sf|python3 -m venv) .*?(/\S+)$", installed)
    assert "/usr/lib/sysusers.d/cachepilot-controller.conf" in paths
    for path in paths:
        assert path in files or any(path.startswith(folder) for folder in folders)
    assert "rmdir --ignore-fail-on-non-empty /etc/cachepilot" in lines
    assert "/usr/local/bin/cachepilot" in files
    assert lines.index("userdel cachepilot") > lines.index("systemctl daemon-reload")
