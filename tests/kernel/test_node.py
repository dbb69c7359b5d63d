# SPDX-License-Identifier: Apache-2.0
"""The agent's node on the patched kernel: tenants, limits, policies, adoption, and 100 kills."""

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cachepilot import agent
from cachepilot.vm import Machine, Result, run

HERE = Path(__file__).parent
MIB = 1 << 20
FILE_PAGES = 48 * 256
Told = dict[str, Any]

pytestmark = pytest.mark.usefixtures("patched_kernel")


def guest(*command: object, seconds: float = 600) -> Result:
    program = agent.find(os.environ)
    environment = agent.environment_for(program, os.environ) | {agent.BINARY_VARIABLE: str(program)}
    machine = Machine(
        cpus=1, disk_bytes=256 * MIB, environment=environment, timeout_seconds=seconds
    )
    return run(machine, [str(part) for part in command])


def script(*arguments: object, seconds: float = 600) -> dict[str, Told]:
    """Return what node_guest.py prints, by step; the last line of each step."""
    result = guest("/usr/bin/python3", HERE / "node_guest.py", *arguments, seconds=seconds)
    assert result.returncode == 0, result.output[-2000:] + result.errors
    lines = map(json.loads, result.output.splitlines())
    return {line["step"] + line.get("wanted", ""): line for line in lines}


@pytest.fixture(scope="module")
def steps(node: Path) -> dict[str, Told]:
    return script(node, "/tmp/state", "steer")


def test_tenants_come_and_go(steps: dict[str, Told]) -> None:
    names = {step: list(steps[step]["seen"]["tenants"]) for step in ("hello", "came", "went")}
    assert names == {"hello": ["/t-a"], "came": ["/t-a", "/t-b"], "went": ["/t-a"]}
    assert steps["went"]["asked"]["outcome"] == "GONE"
    assert all(told["seen"]["failed_reads_total"] == 0 for told in steps.values() if "seen" in told)


def test_accesses_of_tenants_are_seen(steps: dict[str, Told]) -> None:
    assert steps["hello"]["kind"] == "cache_ext"
    tenants = steps["read"]["seen"]["tenants"]
    for tenant in tenants.values():
        assert tenant["accesses_total"] >= 2 * FILE_PAGES
        assert tenant["curves"] or tenant["distrust"].startswith("warming up: ")
    # The first read of /t-b came before the node knew this tenant.
    assert tenants["/t-a"]["misses_total"] > 0
    assert tenants["/t-a"]["block_reads_total"] > 0
    assert steps["read"]["seen"]["device_reads_total"] > 0


def test_a_limit_goes_down_in_steps_by_reclaim(steps: dict[str, Told]) -> None:
    assert steps["lower"]["asked"]["outcome"] == "STARTED"
    seen = steps["lower"]["seen"]["tenants"]["/t-a"]
    assert seen["target_limit_bytes"] == 24 * MIB < seen["limit_bytes"]
    highs = [high for high, _ in steps["lowered"]["steps"] if high is not None]
    assert highs == sorted(highs, reverse=True) and highs[-1] == 24 * MIB
    # A step is 4 MiB below the current usage, and reclaim may have freed more than requested.
    assert all(a - b <= 8 * MIB for a, b in pairwise(highs))
    done = steps["lowered"]["seen"]["tenants"]["/t-a"]
    assert done["current_bytes"] <= 24 * MIB and done["evictions_total"] >= 20 * 256
    assert done["limit_bytes"] == done["target_limit_bytes"] == 24 * MIB
    assert steps["lowered"]["max"] is None


def test_a_limit_goes_up_at_once_and_never_below_the_floor(steps: dict[str, Told]) -> None:
    assert steps["raised"]["asked"]["outcome"] == "APPLIED"
    assert steps["raised"]["high"] == steps["low"]["high"] == 40 * MIB
    assert steps["low"]["asked"]["outcome"] == "REFUSED"
    assert "below the floor" in steps["low"]["asked"]["reason"]


@pytest.mark.parametrize("policy", ["lfu", "mru"])
def test_policies_follow_one_another(steps: dict[str, Told], policy: str) -> None:
    told = steps[f"policy{policy}"]
    assert told["asked"]["outcome"] == "APPLIED"
    assert told["policy"] == policy


def test_pages_of_a_readahead_policy_are_reported_while_it_is_attached(
    steps: dict[str, Told],
) -> None:
    told = steps["ahead"]
    readahead = {
        when: {name: one["readahead"] for name, one in told[when]["tenants"].items()}
        for when in ("before", "during", "after")
    }
    assert readahead["before"] == readahead["after"] == {"/t-a": None, "/t-b": None}
    assert readahead["during"] == {
        "/t-a": {"policy": "linux", "pages": told["counts"]},
        "/t-b": None,
    }
    ahead, used, wasted = told["counts"]
    assert used > 0 and used + wasted <= ahead


def test_the_cpu_time_of_a_policy_is_measured_and_there_is_none_without_one(
    steps: dict[str, Told],
) -> None:
    tenants = steps["cost"]["seen"]["tenants"]
    assert {name: one["policy"] for name, one in tenants.items()} == {
        "/t-a": "mru",
        "/t-b": "default",
    }
    # An emulated processor takes some microseconds per access, and never as long as a millisecond.
    assert 0 < tenants["/t-a"]["policy_cpu_us_per_access"] < 1000
    assert tenants["/t-b"]["policy_cpu_us_per_access"] is None
    released = steps["released"]["seen"]["tenants"]["/t-a"]
    assert released["policy"] == "default" and released["policy_cpu_us_per_access"] is None


def test_a_limit_that_someone_else_sets_is_set_once_more_and_then_left_alone(
    steps: dict[str, Told],
) -> None:
    kinds = {"asserted": "LIMIT_ASSERTED", "yielded": "LIMIT_YIELDED"}
    limits = {"asserted": 40 * MIB, "yielded": 30 * MIB}
    for step, kind in kinds.items():
        assert steps[step]["high"] == limits[step]
        for when in ("seen", "after"):
            tenant = steps[step][when]["tenants"]["/t-a"]
            assert "memory.high was set to 31457280 by someone else" in tenant["interference"]
            assert tenant["limit_bytes"] == limits[step]
            assert [one["kind"] for one in tenant["conditions"]] == [kind]
    [condition] = steps["again"]["seen"]["tenants"]["/t-a"]["conditions"]
    assert condition["kind"] == "LIMIT_YIELDED"


def test_the_next_node_adopts_and_gives_back(steps: dict[str, Told]) -> None:
    again = steps["again"]
    assert again["adopted"] == ["/t-a"] and again["policy"] == "mru"
    assert again["seen"]["tenants"]["/t-a"]["initial_limit_bytes"] == 0
    released = steps["released"]
    assert [result["outcome"] for result in released["asked"]] == ["APPLIED"]
    assert (released["policy"], released["high"]) == ("none", None)


@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.long)])
def test_a_kill_at_any_point_leaves_nothing_that_is_not_known(node: Path, rounds: int) -> None:
    told = script(node, "/tmp/state", "kill", rounds, seconds=1200)["killed"]
    assert told["left"] == {"t-a": [None, "none"], "t-b": [None, "none"]}
    assert (told["pins"], told["entries"]) == ([], {})
    # Many kills come late enough to leave changes behind.
    assert told["adopted"] > rounds / 2


def test_doctor_finds_everything_in_order() -> None:
    result = guest(agent.find(os.environ), "doctor", "--dir", "/mnt/scratch", "--json")
    report = json.loads(result.output)
    others = [check for check in report["checks"] if check["status"] != "works"]
    # No systemd runs in this guest.
    assert [(check["name"], check["status"]) for check in others] == [("systemd", "without")]
    assert report["healthy"] and result.returncode == 0
