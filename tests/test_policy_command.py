# SPDX-License-Identifier: Apache-2.0
"""`cachepilot policy` as users meet it, on a machine whose kernel may lack cache_ext."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunCli = Callable[..., Any]

CGROUP = ("--cgroup", ".")
ATTACH = ("policy", "attach", *CGROUP, "--policy")

REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("policy",), "expected a command"),
    (("policy", "nope"), "'nope'"),
    (("policy", "attach"), "--cgroup <PATH> --policy <NAME>"),
    ((*ATTACH, "lfu", "--object", "x.bpf.o"), "cannot be used with"),
    ((*ATTACH, "lfu", "--watch", "."), "cannot be used with"),
    (("policy", "attach", *CGROUP, "--object", "x.bpf.o", "--max-entries", "x"), "KEY=VALUE"),
    (("policy", "attach", "--policy", "lfu"), "--cgroup <PATH>"),
    ((*ATTACH, "nope"), "known: admission, "),
    ((*ATTACH, "kernel_lru"), "known: admission, "),
    ((*ATTACH, "lfu"), "not a cgroup v2 directory"),
    ((*ATTACH, "lfu", "--set", "nope"), "expected KEY=VALUE"),
    ((*ATTACH, "lfu", "--set", "nope=1"), "known: pages_per_candidate"),
    ((*ATTACH, "lru", "--set", "nope=1"), "the policy has no tunables"),
    ((*ATTACH, "lfu", "--set", "pages_per_candidate=1"), "1 is not in 2..=512"),
    ((*ATTACH, "lfu", "--set", "pages_per_candidate=x"), "not a number"),
    ((*ATTACH, "get_scan", "--set", "scan_tasks.16=1"), "the element is not in 0..=15"),
    ((*ATTACH, "lfu", "--policies", "empty"), "no policies (*.bpf.o) here"),
    ((*ATTACH, "lfu", "--policies", "missing"), "missing: No such file"),
    (("policy", "swap", *CGROUP, "--policy", "nope"), "known: admission, "),
    (("policy", "detach", *CGROUP), "not a cgroup v2 directory"),
    (("policy", "detach", "--cgroup", "missing"), "missing: No such file"),
    (("policy", "set", *CGROUP), "KEY=VALUE"),
    (("policy", "set", *CGROUP, "nope"), "expected KEY=VALUE"),
    (("policy", "stat", *CGROUP), "not a cgroup v2 directory"),
    (("policy", "verify", "--policy", "nope"), "known: admission, "),
]


@pytest.mark.parametrize(("arguments", "reason"), REFUSED, ids=[" ".join(a) for a, _ in REFUSED])
def test_refused_in_one_line(
    run_cli: RunCli, tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    (tmp_path / "empty").mkdir()
    outcome = run_cli(*arguments)
    assert (outcome.status, outcome.stdout) == (2, ""), outcome
    assert outcome.stderr.count("\n") == 1, outcome.stderr
    assert outcome.stderr.startswith("cachepilot: error: ") and reason in outcome.stderr


def test_a_manifest_that_makes_no_sense_is_named(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "odd.bpf.o").write_bytes(b"")
    (tmp_path / "odd.toml").write_text('name = "odd"\n')
    outcome = run_cli(*ATTACH, "odd", "--policies", tmp_path)
    assert outcome.status == 2
    assert f"{tmp_path}/odd.toml: " in outcome.stderr and "missing field" in outcome.stderr


@pytest.mark.parametrize("command", ["attach", "swap", "detach", "set", "stat", "verify"])
def test_every_command_has_help_that_names_it_as_it_was_called(
    run_cli: RunCli, command: str
) -> None:
    outcome = run_cli("policy", command, "--help")
    assert outcome.status == 0
    assert f"Usage: cachepilot policy {command}" in outcome.stdout


def test_a_kernel_without_cache_ext_has_its_own_exit_status(run_cli: RunCli) -> None:
    """On the patched kernel the command works. On any other it prints the reason in one line."""
    outcome = run_cli("policy", "stat", "--json")
    if outcome.status == 0:
        assert isinstance(json.loads(outcome.stdout), list)
    else:
        assert (outcome.status, outcome.stdout) == (1, "")
        assert outcome.stderr.count("\n") == 1
        assert "cache_ext" in outcome.stderr or "root" in outcome.stderr
