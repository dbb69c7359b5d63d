# SPDX-License-Identifier: Apache-2.0
"""The examples of the documentation that take the patched kernel, as they are typed there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from docs_examples import shell_blocks

from cachepilot import agent
from cachepilot.vm import Machine, run

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / name for name in ("commands.md", "kernel.md", "operating.md")]
MIB = 1 << 20
# What the guest's first process is to a host: a shell that is root, with two services' cgroups.
PROLOGUE = """
set -eux
cachepilot() {{ "{agent}" "$@"; }}
cachepilot-agent() {{ "{agent}" "$@"; }}
sudo() {{ "$@"; }}
mkdir -p /sys/fs/cgroup/db /sys/fs/cgroup/system.slice
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
"""
JOB = "[reads]\nrw=randread\nsize=4m\nfilename=/mnt/scratch/file\nruntime=1\n"

pytestmark = pytest.mark.usefixtures("patched_kernel")


def _lines(page: Path, begins: str) -> list[str]:
    shown = (line for block in shell_blocks(page) for line in block.splitlines())
    lines = [line.split("  #")[0].strip() for line in shown]
    return [line for line in lines if re.match(begins, line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_examples_of_policies_work_in_a_machine(page: Path) -> None:
    lines = _lines(page, r"(sudo )?cachepilot(-agent)? policy |cat /sys/fs/cgroup|echo max ")
    assert lines
    if page.name == "operating.md":
        lines.insert(0, "cachepilot policy attach --cgroup /sys/fs/cgroup/db --policy lru")
    program = agent.find(os.environ)
    script = "\n".join([PROLOGUE.format(agent=program), *lines])
    machine = Machine(
        cpus=2, disk_bytes=64 * MIB, environment=agent.environment_for(program, os.environ)
    )
    result = run(machine, ["/bin/bash", "-c", script])
    assert result.returncode == 0, result.errors


@pytest.mark.parametrize("line", _lines(PAGES[0], "cachepilot vm run"))
def test_examples_of_the_machine_work(line: str, tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text(JOB, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "cachepilot.cli", *shlex.split(line)[1:]],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
