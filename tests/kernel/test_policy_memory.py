# SPDX-License-Identifier: Apache-2.0
"""What the agent counts as the memory of a policy, against what the kernel charges for it."""

import json
import os
from pathlib import Path

import pytest

from cachepilot import agent, manifest
from cachepilot.vm import Machine, run

HERE = Path(__file__).parent
POLICIES = manifest.attachable()

pytestmark = pytest.mark.usefixtures("patched_kernel")


@pytest.fixture(scope="module")
def machine() -> Machine:
    """Return a machine that has the agent and the policies of the tree."""
    environment = agent.environment_for(agent.find(os.environ), os.environ)
    return Machine(cpus=1, environment=environment, timeout_seconds=500.0)


@pytest.fixture(scope="module")
def charged(machine: Machine) -> dict[str, dict[str, int]]:
    """Return the bytes that the kernel charges for one attachment, by policy."""
    command = ["/usr/bin/python3", HERE / "policy_memory_guest.py", agent.find(os.environ)]
    result = run(machine, [*map(str, command), *POLICIES])
    assert result.returncode == 0, result.errors
    lines = map(json.loads, result.output.splitlines())
    return {line["step"]: line for line in lines}


@pytest.fixture(scope="module")
def counted(machine: Machine) -> dict[str, int]:
    """Return the bytes that the agent counts, by policy."""
    result = run(machine, [str(agent.find(os.environ)), "policy", "verify", "--json"])
    assert result.returncode == 0, result.errors
    return {verdict["policy"]: verdict["memory_bytes"] for verdict in json.loads(result.output)}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_agent_counts_what_the_kernel_charges(
    charged: dict[str, dict[str, int]], counted: dict[str, int], policy: str
) -> None:
    # A policy's programs take less than what is counted for those of any policy.
    found = charged[policy]["charged_bytes"]
    assert found <= counted[policy] <= found + (96 << 10)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_of_a_small_cgroup_takes_little(
    charged: dict[str, dict[str, int]], policy: str
) -> None:
    # The cgroup has at most 16,384 pages. No policy has more than 16 bytes of state for each.
    assert charged[policy]["limited_bytes"] <= (16 * 16384) + (112 << 10)
