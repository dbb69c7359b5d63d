# SPDX-License-Identifier: Apache-2.0
"""The virtual machine: exact output and status, what is writable, the disk, failures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cachepilot.vm import Machine, Result, VmError, VmTimeout, run

IOPS = 200
READS = 400
BURST_SECONDS = 0.1
"""QEMU lets a burst pass at once: the requests of a tenth of a second."""

SURVEY = f"""
echo "output"; printf 'no end of line'
echo "errors" >&2
pwd; echo "$MARK"
touch {Path(__file__).parent}/written 2>/dev/null || echo "read-only" >&2
touch /tmp/a /run/a /var/tmp/a /mnt/scratch/a && findmnt -no FSTYPE /mnt/scratch >&2
cat /sys/fs/cgroup/cgroup.subtree_control >&2
stat -f -c %T /sys/fs/bpf /sys/kernel/tracing >&2
echo written > "$SHARE/from_guest"
head -c 300000 /dev/zero
dd if=/dev/vda of=/dev/null bs=4k count={READS} iflag=direct 2>&1 | tail -n 1 >&2
exit 7
"""


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("share")


@pytest.fixture(scope="module")
def survey(patched_kernel: Path, share: Path) -> Result:
    environment = {"PATH": os.environ["PATH"], "MARK": "kept", "SHARE": str(share)}
    machine = Machine(
        iops=IOPS,
        shares=(share,),
        environment=environment,
        cwd=Path("/usr/lib"),
        timeout_seconds=300,
    )
    return run(machine, ["/bin/sh", "-c", SURVEY])


def test_output_and_status_are_the_commands(survey: Result) -> None:
    assert survey.returncode == 7
    assert survey.output == "output\nno end of line/usr/lib\nkept\n" + "\0" * 300_000
    assert survey.errors.startswith("errors\n")
    assert survey.lost_bytes == 0


def test_only_scratch_folders_and_shares_can_be_written(survey: Result, share: Path) -> None:
    assert "read-only\n" in survey.errors
    assert not (Path(__file__).parent / "written").exists()
    assert "\next4\n" in survey.errors
    assert (share / "from_guest").read_text("utf-8") == "written\n"


def test_file_systems_that_policies_need_are_mounted(survey: Result) -> None:
    lines = survey.errors.splitlines()
    assert {"memory", "io", "cpu"} <= set(lines[3].split())
    assert lines[4:6] == ["bpf_fs", "tracefs"]


def test_the_disk_is_as_slow_as_asked(survey: Result) -> None:
    # dd ends with "... copied, 1.9 s, 860 kB/s" by the guest's clock
    seconds = float(survey.errors.splitlines()[-1].split(", ")[-2].removesuffix(" s"))
    expected = READS / IOPS
    assert expected - 2 * BURST_SECONDS < seconds < 2 * expected


def test_the_kernels_log_is_kept(survey: Result) -> None:
    assert "Linux version 6.12" in survey.kernel_log
    assert survey.accelerator in {"kvm", "tcg"}
    assert 0 < survey.cpu_seconds < survey.seconds * 2


def test_a_panic_is_reported_with_its_cause(patched_kernel: Path) -> None:
    with pytest.raises(VmError, match=r"the guest's kernel failed: .*sysrq") as caught:
        run(Machine(timeout_seconds=300), ["sh", "-c", "echo c > /proc/sysrq-trigger"])
    assert "sysrq_handle_crash" in caught.value.console


def test_time_is_up_for_a_command_that_does_not_end(patched_kernel: Path) -> None:
    # Long enough for the guest to boot beside others.
    with pytest.raises(VmTimeout, match="the command did not end within 30 s"):
        run(Machine(timeout_seconds=30, filesystem="none"), ["sleep", "1000"])


def test_the_command_line_passes_status_and_streams_on(patched_kernel: Path) -> None:
    command = [sys.executable, "-m", "cachepilot.cli", "vm", "run", "--filesystem", "none", "--"]
    done = subprocess.run(
        [*command, "sh", "-c", "echo out; echo err >&2; kill -9 $$"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (137, "out\n", "err\n")
