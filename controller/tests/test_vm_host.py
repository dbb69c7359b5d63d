# SPDX-License-Identifier: Apache-2.0
"""What the host lacks, what the guest reports, and what its console shows."""

import json
from pathlib import Path

import pytest

from cachepilot.vm import Machine, VmError, accelerator, host, run, runner
from cachepilot.vm.console import diagnosis, tail
from cachepilot.vm.folder import sweep, temporary_folder
from cachepilot.vm.runner import Control, Exit, Stream

OOPS = """\
[    1.000000] Run /init as init process
[    2.000000] BUG: kernel NULL pointer dereference, address: 0000000000000010
[    2.000001] #PF: supervisor read access in kernel mode
[    2.100000] Kernel panic - not syncing: Fatal exception
"""


def test_a_kernel_that_is_not_built_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = tmp_path / "build"
    build.write_text("#!/bin/sh\nexit 3\n", "utf-8")
    build.chmod(0o755)
    monkeypatch.setattr(host, "_KERNEL_FOLDER", tmp_path)
    with pytest.raises(VmError, match="the debug kernel is not built: run make kernel-debug"):
        host.kernel_image("debug")


def test_a_ram_disk_is_used_where_the_kernel_has_one(tmp_path: Path) -> None:
    image = tmp_path / "bzImage"
    assert host.initial_ram_disk(image) is None
    (tmp_path / "initrd").touch()
    assert host.initial_ram_disk(image) == tmp_path / "initrd"


def test_errors_of_the_kernel_build_are_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = tmp_path / "build"
    build.write_text("#!/bin/sh\necho no source >&2\nexit 1\n", "utf-8")
    build.chmod(0o755)
    monkeypatch.setattr(host, "_KERNEL_FOLDER", tmp_path)
    with pytest.raises(VmError, match=r"^no source$"):
        host.kernel_image("patched")


def test_a_missing_qemu_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(VmError, match="qemu-system-x86_64 is not installed"):
        run(Machine(), ["true"])


def test_missing_memory_is_reported_in_numbers() -> None:
    with pytest.raises(VmError, match=r"--memory 1048576M: needs \d+M .* \d+M are available"):
        run(Machine(memory_bytes=1 << 40), ["true"])


def test_available_memory_is_read_from_meminfo() -> None:
    assert host.available_bytes("MemTotal: 8 kB\nMemAvailable:  4 kB\n") == 4096
    with pytest.raises(VmError, match="MemAvailable"):
        host.available_bytes("MemTotal: 8 kB\n")


def test_the_probe_is_made_once_per_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [True]
    monkeypatch.setenv("CACHEPILOT_CACHE", str(tmp_path))
    monkeypatch.delenv("CACHEPILOT_ACCEL", raising=False)
    monkeypatch.setattr(accelerator, "probe", lambda qemu, kernel: answers.pop())
    kernel = Path("bzImage")
    assert [accelerator.choose("qemu", kernel) for _ in range(3)] == ["kvm"] * 3
    stored = tmp_path / "vm" / "accelerator.json"
    stored.write_text(json.dumps({"boot_id": "another", "accelerator": "kvm"}), "utf-8")
    answers.append(False)
    assert accelerator.choose("qemu", kernel) == "tcg"
    stored.write_text("not json", "utf-8")
    answers.append(True)
    assert accelerator.choose("qemu", kernel) == "kvm"


def test_without_a_device_there_is_no_kvm(tmp_path: Path) -> None:
    assert not accelerator.probe("/bin/false", tmp_path / "bzImage", tmp_path / "kvm")


def test_an_emulator_that_fails_is_no_proof(tmp_path: Path) -> None:
    assert not accelerator.probe("/bin/false", tmp_path / "bzImage", Path("/dev/null"))


def test_a_panic_is_named_by_its_cause() -> None:
    cause = "BUG: kernel NULL pointer dereference, address: 0000000000000010"
    assert diagnosis(OOPS) == cause
    assert diagnosis("[    9.1] Kernel panic - not syncing: x\n") == "Kernel panic - not syncing: x"
    assert diagnosis("[    1.0] BUG: workqueue lockup\n[    2.0] fine\n") is None


def test_the_tail_is_the_end() -> None:
    assert tail("\n".join(map(str, range(100)))).splitlines() == [str(i) for i in range(60, 100)]


def test_the_report_is_read_from_any_pieces() -> None:
    control = Control()
    for piece in (b"sta", b"rt\nexit 3 1", b"0 20 5000", b"\n"):
        control.take(piece)
    assert control.started_at is not None
    assert control.exit == Exit(3, 10, 20, 5000)
    control.take(b"failed mounting x: no\n")
    assert control.failure == "mounting x: no"


def test_a_stream_keeps_to_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MAX_CAPTURE_BYTES", 4)
    seen: list[bytes] = []
    stream = Stream(seen.append)
    for piece in (b"abc", b"def", b"g"):
        stream.take(piece)
    assert (stream.text, stream.lost_bytes) == ("abcd", 3)
    assert b"".join(seen) == b"abcdefg"


def test_folders_of_ended_processes_are_removed_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead, young = tmp_path / "cachepilot-vm-dead", tmp_path / "cachepilot-vm-young"
    for folder in (dead, young):
        folder.mkdir()
    (dead / "lock").touch()
    with temporary_folder() as living:
        assert not dead.exists()
        assert young.exists()
        sweep(tmp_path)
        assert living.exists()
    assert not living.exists()
