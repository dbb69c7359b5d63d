# SPDX-License-Identifier: Apache-2.0
"""The examples of the documentation that need the patched kernel, as typed there."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from docs_examples import IN_A_MACHINE, NEW_POLICY, doctors, machines, of_policies_in_a_machine

from cachepilot import agent
from cachepilot.vm import Machine, run
from cachepilot.vm.orders import COVERED

MIB = 1 << 20
# How the guest looks to the examples: a root shell on a host with the cgroups of two services.
PROLOGUE = """
set -eux
cachepilot() {{ "{agent}" "$@"; }}
cachepilot-agent() {{ "{agent}" "$@"; }}
sudo() {{ "$@"; }}
mkdir -p {cgroups}
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
"""
CGROUPS = "/sys/fs/cgroup/db /sys/fs/cgroup/system.slice"
JOB = "[reads]\nrw=randread\nsize=4m\nfilename=/mnt/scratch/file\nruntime=1\n"
PROGRAMS = {
    "measure": '#!/bin/sh\necho measured | tee "$1/figures"\n',
    "count-me": "#!/bin/sh\necho counted\n",
}
# The policy that a page adds is not built here; another policy replaces it. The unpatched kernel,
# which only experiments need, is replaced too.
STANDS_FOR = {"slru": "s3fifo", "--kernel stock": "--kernel patched"}

ROOT = Path(__file__).parents[2].resolve()

pytestmark = pytest.mark.usefixtures("patched_kernel")


def _here(line: str) -> str:
    for old, new in STANDS_FOR.items():
        line = line.replace(old, new)
    # Where the guest has empty folders of its own, the checkout must be shared with it.
    if line.startswith("cachepilot vm run") and any(map(ROOT.is_relative_to, COVERED)):
        line = line.replace("vm run", f"vm run --share {ROOT}", 1)
    return line


@pytest.mark.parametrize("page", IN_A_MACHINE)
def test_examples_of_policies_work_in_a_machine(page: str) -> None:
    lines = [_here(one.line) for one in of_policies_in_a_machine(page)]
    assert lines
    # The page that adds a policy makes the cgroup itself, and a file of 256 MiB.
    cgroups = "/sys/fs/cgroup/system.slice" if page == NEW_POLICY else CGROUPS
    program = agent.find(os.environ)
    script = "\n".join([PROLOGUE.format(agent=program, cgroups=cgroups), *lines])
    machine = Machine(
        cpus=2, disk_bytes=512 * MIB, environment=agent.environment_for(program, os.environ)
    )
    result = run(machine, ["/bin/bash", "-c", script])
    assert result.returncode == 0, result.errors


def _called() -> set[str]:
    """Return the arguments of the examples of `doctor`. The program's name varies."""
    return {one.line.removeprefix("sudo ").partition(" ")[2] for one in doctors()}


@pytest.mark.parametrize("called", sorted(_called()))
def test_the_doctor_finds_a_patched_host_in_order(called: str) -> None:
    program = agent.find(os.environ)
    machine = Machine(
        cpus=1, disk_bytes=256 * MIB, environment=agent.environment_for(program, os.environ)
    )
    # The folder for the doctor's test files is in memory in the guest.
    result = run(machine, [str(program), *shlex.split(called), "--dir", "/mnt/scratch"])
    assert result.returncode == 0, result.output + result.errors


@pytest.mark.parametrize("line", sorted({one.line for one in machines()}))
def test_examples_of_the_machine_work(line: str, tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text(JOB, "utf-8")
    (tmp_path / "results").mkdir()
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text, "utf-8")
        (tmp_path / name).chmod(0o755)
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "cachepilot.cli", *shlex.split(_here(line))[1:]],
        cwd=tmp_path,
        env=os.environ | {"PATH": programs},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
    if "--share results" in line:
        assert (tmp_path / "results" / "figures").read_text("utf-8") == "measured\n"
