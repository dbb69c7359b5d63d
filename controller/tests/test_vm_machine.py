# SPDX-License-Identifier: Apache-2.0
"""Options of a virtual machine, and the command lines that they give."""

from pathlib import Path
from typing import Any

import pytest

from cachepilot.cli.host.vm import size_bytes
from cachepilot.errors import InputError
from cachepilot.vm import Machine, qemu
from cachepilot.vm.orders import Terminal, encode, kept


def launch(**changes: Any) -> qemu.Launch:
    facts: dict[str, Any] = {
        "qemu": "/bin/qemu",
        "kernel": Path("/k/bzImage"),
        "initrd": None,
        "init": Path("/c/guest_init"),
        "accelerator": "tcg",
        "folder": Path("/f"),
        "orders": Path("/f/orders"),
        "image": Path("/f/scratch.img"),
        "ports": (7, 8, 9),
        "slow": False,
    }
    return qemu.Launch(**(facts | changes))


def words(machine: Machine, **changes: Any) -> str:
    return " ".join(qemu.arguments(machine, launch(**changes)))


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"kernel": "old"}, "--kernel old"),
        ({"filesystem": "btrfs"}, "--filesystem btrfs"),
        ({"kernel": "debian", "filesystem": "xfs"}, "--filesystem xfs"),
        ({"cpus": 0}, "--cpus 0"),
        ({"cpus": 17}, "--cpus 17"),
        ({"memory_bytes": 1 << 20}, "--memory"),
        ({"disk_bytes": 1 << 20}, "--disk"),
        ({"filesystem": "xfs", "disk_bytes": 100 << 20}, "--disk"),
        ({"iops": 0}, "--iops 0"),
        ({"latency_us": -1}, "--latency-us -1"),
        ({"timeout_seconds": 0}, "--timeout 0"),
        ({"timeout_seconds": float("nan")}, "--timeout nan"),
        ({"icount": True}, "--icount"),
        ({"shares": (Path("/no/such/folder"),)}, "--share /no/such/folder"),
    ],
)
def test_a_bad_option_is_named(changes: dict[str, Any], option: str) -> None:
    with pytest.raises(InputError, match=f"^{option}"):
        Machine(**changes)


@pytest.mark.parametrize(
    ("text", "expected"), [("512M", 512 << 20), ("2G", 2 << 30), ("2GiB", 2 << 30), ("1T", 1 << 40)]
)
def test_sizes(text: str, expected: int) -> None:
    assert size_bytes("--disk", text) == expected


@pytest.mark.parametrize("text", ["", "2", "2g", "-1G", "1.5G", "2GB", "many", "9999999999G"])
def test_an_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--disk"):
        size_bytes("--disk", text)


def test_the_root_is_read_only_and_shares_are_not() -> None:
    line = words(Machine(shares=(Path("/usr"),)))
    root, share = (part for part in line.split(" -fsdev ")[1:])
    assert root.startswith("local,id=hosttree,path=/,")
    assert "readonly=on" in root
    assert share.startswith("local,id=share0,path=/usr,")
    assert "readonly" not in share


def test_a_limit_of_iops_is_on_the_disk() -> None:
    assert "throttling.iops-total=1500" in words(Machine(iops=1500))
    assert "throttling" not in words(Machine())


def test_latency_puts_a_server_before_the_image() -> None:
    assert "file.server.path=/f/disk.sock" in words(Machine(latency_us=500), slow=True)
    assert "file=/f/scratch.img" in words(Machine())


def test_counting_instructions_leaves_one_emulated_cpu() -> None:
    line = words(Machine(cpus=1, icount=True), accelerator="kvm")
    assert "-icount shift=0,sleep=off" in line
    assert "-smp 1" in line
    assert "kvm" not in line
    assert "tsc_early_khz=1000000" in line


def test_a_kernel_with_modules_gets_its_ram_disk() -> None:
    assert "-initrd" not in words(Machine())
    line = words(Machine(kernel="debian"), initrd=Path("/k/initrd"))
    assert " -initrd /k/initrd " in line


def test_words_to_append_come_last() -> None:
    line = qemu.kernel_command_line(Machine(append="numa=fake=2 quiet"), launch())
    assert line.endswith(" numa=fake=2 quiet")
    assert "CACHEPILOT_RUN=/f/orders" in line.split()


def entries(machine: Machine, *arguments: str, terminal: Terminal | None = None) -> list[str]:
    return encode(machine, arguments, terminal).decode().removesuffix("\0").split("\0")


def test_orders_keep_words_as_they_are() -> None:
    machine = Machine(cwd=Path("/srv/a b"), environment={"A": "b=c", "PATH": "/bin"})
    got = entries(machine, "printf", "%s\n", "", "ü=1")
    assert got == [
        *("cwd=/srv/a b", "filesystem=ext4", "argument=printf", "argument=%s\n", "argument="),
        *("argument=ü=1", "environment=A=b=c", "environment=PATH=/bin"),
    ]


def test_orders_of_a_shell_have_the_size_of_its_terminal() -> None:
    machine = Machine(cwd=Path("/"), environment={}, filesystem="none")
    got = entries(machine, "sh", terminal=Terminal(50, 132))
    assert got == ["cwd=/", "shell=1", "rows=50", "columns=132", "argument=sh"]


def test_a_zero_byte_is_refused() -> None:
    with pytest.raises(InputError, match="zero byte"):
        entries(Machine(environment={}), "echo", "a\0b")


def test_folders_that_the_guest_covers_are_kept_shortest_first() -> None:
    search = "/usr/bin:/tmp/tools/bin:/tmpfoo/bin:/mnt/x"
    expected = ["/mnt/x", "/tmp/code/tree", "/tmp/tools/bin"]
    assert kept(Path("/tmp/code/tree"), search) == expected
    assert kept(Path("/srv"), "/usr/bin") == []
