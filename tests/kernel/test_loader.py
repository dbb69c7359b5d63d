# SPDX-License-Identifier: Apache-2.0
"""The loader on the patched kernel: attach, swap and detach of every policy; refusals; kills."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cachepilot import agent, manifest
from cachepilot.vm import Machine, Result, run

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
POLICIES = manifest.attachable()
FILE_PAGES = 8192
MIB = 1 << 20

pytestmark = pytest.mark.usefixtures("patched_kernel")


def guest(*command: object, seconds: float = 600) -> Result:
    """Run a command in a new machine, with the agent and the policies of the tree."""
    program = agent.find(os.environ)
    environment = agent.environment_for(program, os.environ)
    machine = Machine(
        cpus=2, disk_bytes=128 * MIB, environment=environment, timeout_seconds=seconds
    )
    return run(machine, [str(part) for part in command])


def script(name: str, *arguments: str, seconds: float = 600) -> Result:
    return guest("/bin/sh", HERE / name, agent.find(os.environ), *arguments, seconds=seconds)


@pytest.fixture(scope="module")
def steps() -> dict[tuple[str, str], dict[str, Any]]:
    """Return what `policy stat` printed after each step of loader.sh, by step and policy."""
    result = script("loader.sh", *POLICIES)
    assert result.returncode == 0, result.errors
    lines = [json.loads(line) for line in result.output.splitlines()]
    return {(line["step"], line["policy"]): line["rows"][0] for line in lines}


@pytest.mark.parametrize("policy", POLICIES)
def test_an_attached_policy_decides(
    steps: dict[tuple[str, str], dict[str, Any]], policy: str
) -> None:
    row = steps["attached", policy]
    assert (row["policy"], row["pinned"], row["owner"]) == (policy, policy, row["cgroup_id"])
    assert row["state"] in ("running", "adopting"), row["reason"]
    assert row["added"] + row["unadmitted"] >= FILE_PAGES // 2
    assert (row["accepted_pages"] > 0) == manifest.find(policy).evicts
    assert row["ejections"] == 0 and (row["fallbacks"] == 0 or row["requests"] > 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_takes_over_under_load(
    steps: dict[tuple[str, str], dict[str, Any]], policy: str
) -> None:
    row = steps["swapped", policy]
    assert (row["policy"], row["pinned"]) == (policy, policy)
    assert row["state"] in ("running", "adopting"), row["reason"]
    assert row["swaps"] == POLICIES.index(policy) + 1
    assert row["resident_pages"] > 0 or not manifest.find(policy).evicts


def test_without_a_policy_nothing_is_left(
    steps: dict[tuple[str, str], dict[str, Any]],
) -> None:
    for row in (steps["before", "none"], steps["detached", "none"]):
        assert (row["policy"], row["pinned"], row["owner"]) == ("none", None, 0)
        assert row["registry_bytes"] == 0


@pytest.fixture(scope="module")
def answers() -> list[tuple[str, int, str]]:
    """Return the command, status and output of each line of loader_commands.sh."""
    result = script("loader_commands.sh")
    assert result.returncode == 0, result.output + result.errors
    found = re.findall(r"^\$ (.*)\n((?:.*\n)*?)= (\d+)\n", result.output, re.MULTILINE)
    return [(command, int(status), output) for command, output, status in found]


EXPECTED: list[tuple[str, int, str]] = [
    ("swap", 2, "has no policy of its own; give it one by attach"),
    ("detach", 2, "has no policy of its own; give it one by attach"),
    ("set", 2, "has no policy of its own; give it one by attach"),
    ("stat", 0, "no cgroup has a policy"),
    ("attach", 2, "the root cgroup cannot have a policy"),
    ("attach", 0, "/sys/fs/cgroup/loaded: policy lfu attached"),
    ("attach", 2, "has the policy lfu already; replace it by swap"),
    ("stat", 0, "tunables.pages_per_candidate  5\n"),
    ("set", 0, "policy lfu set to pages_per_candidate=8"),
    ("set", 2, "--set pages_per_candidate=1: lfu: 1 is not in 2..=512"),
    ("stat", 0, "tunables.pages_per_candidate  8\n"),
    ("stat", 0, "pinned              -\npolicy              lfu\n"),
    ("detach", 2, "/child has no policy of its own"),
    ("attach", 0, "/sys/fs/cgroup/loaded/child: policy get_scan attached"),
    ("stat", 0, "tunables.scan_tasks  [7,8,7,7,7,7,7,7,7,7,7,7,7,7,7,7]\n"),
    ("swap", 0, "/sys/fs/cgroup/loaded: policy s3fifo instead of lfu"),
    ("stat", 0, "/sys/fs/cgroup/loaded/child  get_scan  "),
    ("stat", 0, "(removed, "),
    ("detach", 0, "/sys/fs/cgroup/loaded: policy s3fifo detached"),
]


def test_answers_are_one_line_with_a_status(answers: list[tuple[str, int, str]]) -> None:
    told = [(command.split()[0], status) for command, status, _ in answers]
    assert told == [(command, status) for command, status, _ in EXPECTED]
    for (command, _, output), (_, _, text) in zip(answers, EXPECTED, strict=True):
        assert re.sub(" +", " ", text) in re.sub(" +", " ", output), (command, output)
        assert output.count("\n") == 1 or command.startswith("stat")


@pytest.mark.long
def test_a_kill_leaves_the_old_policy_or_the_new_one() -> None:
    result = script("loader_kills.sh", seconds=1800)
    assert result.returncode == 0, result.output + result.errors
    kills = re.findall(
        r"^(\w+) (\w+) \d+: policy (\w+) pinned (\w+) next (\d+)$", result.output, re.MULTILINE
    )
    allowed = {"attach": {"none", "lfu"}, "swap": {"fifo", "lfu"}, "detach": {"fifo", "none"}}
    for command, call, policy, pinned, following in kills:
        what = f"{command} killed at {call}: {policy}, {pinned}, {following}\n{result.output}"
        assert policy in allowed[command], what
        assert pinned == "yes" or policy == "none", what
        assert following == "0", what
    # Some kills come early enough to leave the old state, others late enough to leave the new one.
    for command, policies in allowed.items():
        assert {policy for name, _, policy, _, _ in kills if name == command} == policies


def test_readmes_agree_with_the_verifier(tmp_path: Path) -> None:
    result = guest(agent.find(os.environ), "policy", "verify", "--json")
    assert result.returncode == 0, result.errors
    file = tmp_path / "verdicts.json"
    file.write_text(result.output)
    check = [sys.executable, ROOT / "scripts" / "policy_costs.py", "--check", file]
    done = subprocess.run([str(a) for a in check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
