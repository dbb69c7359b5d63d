# SPDX-License-Identifier: Apache-2.0
"""A test runs every command of the documentation, or this file states why no test does."""

import re
from collections.abc import Callable
from pathlib import Path

import docs_examples as shown
import pytest
from docs_examples import ROOT, Example

Selected = Callable[[], list[Example]]


def _in_machine() -> list[Example]:
    return [one for page in shown.IN_A_MACHINE for one in shown.of_policies_in_a_machine(page)]


def _in_environment() -> list[Example]:
    return [one for page in shown.IN_THE_ENVIRONMENT for one in shown.variables(page)]


# The functions from which each test file takes its commands. The test looks for their names there.
RUN: dict[str, list[tuple[str, Selected]]] = {
    "tests/test_docs.py": [("asking", shown.asking), ("requests", shown.requests)],
    "tests/test_docs_commands.py": [("offline", shown.offline)],
    "tests/test_adding_a_policy.py": [("of_the_new_policy", shown.of_the_new_policy)],
    "tests/test_first_hour.py": [("processes", shown.processes), ("variables", _in_environment)],
    "tests/test_installing_docs.py": [("installing", shown.installing)],
    "tests/test_kubernetes.py": [("port_forwarded", shown.port_forwarded)],
    "tests/test_operating_docs.py": [("backups", shown.backups)],
    "tests/test_recorder.py": [("recordings", shown.recordings)],
    "tests/test_ycsb.py": [("of_ycsb", shown.of_ycsb)],
    "tests/test_experiments_docs.py": [("quick_experiments", shown.quick_experiments)],
    "tests/test_bench_models.py": [("benchmarks", shown.benchmarks)],
    "tests/kernel/test_cachestat.py": [("cachestats", shown.cachestats)],
    "tests/kernel/test_docs_commands.py": [
        ("of_policies_in_a_machine", _in_machine),
        ("machines", shown.machines),
        ("doctors", shown.doctors),
    ],
}
# Why no test runs a command, and the patterns of such commands, which match whole lines.
NOT_RUN = {
    "changes the host: packages, services, the boot loader, cgroups of all that runs there": (
        r"sudo (apt|systemctl|reboot|update-grub|grub-(set-default|reboot)) ?.*",
        r"sudo sed -i .* /etc/default/grub",
        r"(entry\(\)|menu=).*/boot/grub/grub\.cfg.*",
        r"echo .* \| sudo tee /root/grub-\w+",
        r"sudo \.venv/bin/cachepilot agent run .*",
        r"sudo cachepilot-agent release",
        r"sudo (python3 -m venv|ln -sf|rm -r) /opt/cachepilot\b.*",
        r"sudo (rm /(etc|usr)/.*|userdel cachepilot)",
        r"sudo rmdir --ignore-fail-on-non-empty /etc/cachepilot",
        r"sudo /opt/cachepilot/bin/pip install dist/cachepilot-\*\.whl",
    ),
    "needs another machine or a cluster": (
        r"(pod=\$\()?kubectl .*",
        r"uname -r|grep CACHE_EXT= /boot/.*",
    ),
    "is what continuous integration calls, or what that calls first": (
        r"make (build|kernel|test)",
        r"kernel/build debian(-[\w-]+)?",
        r"cargo test -p cachepilot-agent .*",
    ),
    "takes hours, or a build of a kernel that no test needs": (
        r"make (kernel-deb|kernel-debug|bench-\w+)\b.*",
        r"kernel/build (stock|counted|scaling)",
        r"kernel/build-each",
    ),
    "writes what tests compare with, from a kernel that is downloaded for it": (
        r"scripts/sampler_kernels\.py .*",
    ),
    "builds into dist/, where tests/test_wheel.py builds the same elsewhere": (
        r"\.venv/bin/maturin build --release --out dist",
    ),
    "builds an older commit, to be measured beside this one": (
        r"git worktree add \S+ 4fe0be8 && make -C \S+ build",
    ),
    "interactive": (r"(\.venv/bin/)?cachepilot (vm shell|top)", r"make run .*--stay.*"),
    "takes minutes: what it calls runs for a shorter time in tests/test_first_hour.py": (
        r"make run|make run ARGS=\"--seconds 300 --json\" .*",
    ),
    "takes minutes: its --quick form or its options are tried in tests/test_experiments_docs.py": (
        r"experiments/\w+/(run|measure|where)\b.*",
    ),
    "moves tenants between nodes, which tests/test_moving.py does": (
        r"cachepilot consolidate --(apply|rollout|stop)\b.*",
        r"make run CONSOLIDATE=1",
    ),
    "takes minutes in a virtual machine, as experiments there do": (r"make run NODE=vm",),
}


def _run() -> set[Example]:
    return {one for chosen in RUN.values() for _, select in chosen for one in select()}


def _reasons(line: str) -> list[str]:
    return [
        why
        for why, patterns in NOT_RUN.items()
        if any(re.fullmatch(pattern, line) for pattern in patterns)
    ]


def test_every_command_is_run_by_a_test_or_says_why_not() -> None:
    run = _run()
    missing = [
        f"{one.page}: {one.line}"
        for one in shown.examples()
        if one not in run and not _reasons(one.line)
    ]
    assert not missing, "\n".join(missing)


def test_a_command_that_no_test_runs_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\ncachepilot frobnicate \\\n  --all  # all\n\nls # x\n```\n", "utf-8")
    (block,) = shown.shell_blocks(page)
    assert shown.commands(block) == ["cachepilot frobnicate --all", "ls"]
    run = {one.line for one in _run()}
    assert not any(line in run or _reasons(line) for line in shown.commands(block))


@pytest.mark.parametrize("path", RUN)
def test_each_named_test_selects_commands(path: str) -> None:
    text = (ROOT / path).read_text("utf-8")
    for name, select in RUN[path]:
        assert select(), f"{name}: nothing is selected"
        assert re.search(rf"\b{name}\(", text), f"{path} does not call {name}"


def test_reasons_are_needed_and_say_one_thing() -> None:
    run = _run()
    idle = [one.line for one in shown.examples() if one not in run]
    for patterns in NOT_RUN.values():
        for pattern in patterns:
            assert any(re.fullmatch(pattern, line) for line in idle), pattern
    for line in idle:
        assert len(_reasons(line)) == 1, line


def test_targets_of_make_exist() -> None:
    targets = re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"))
    for one in shown.examples():
        found = re.match(r"make ([\w-]+)", one.line)
        assert found is None or found[1] in targets, one


def test_variables_are_tried_where_it_is_said() -> None:
    for page, path in shown.IN_THE_ENVIRONMENT.items():
        assert shown.variables(page)
        assert "variables(" in (ROOT / path).read_text("utf-8")
    assert not [
        one
        for one in shown.examples()
        if one.line.startswith("export ") and one not in _in_environment()
    ]
