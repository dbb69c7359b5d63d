# SPDX-License-Identifier: Apache-2.0
"""The agent undoes a change that nobody confirms, whatever happens to the controller.

A real controller and a real agent, on a simulated node in real time, without a lease.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from autopilot_processes import LOOP, NODE, Autopilot
from experiments.autopilot.children import free_port

OBJECTIVES = '[[tenant]]\ncgroup = "*"\n'
INTERVAL_S, TTL_S = 0.1, 13.0
SLACK_S = 4.0
"""Extra seconds for a busy host."""
CONTROLLER = f"""
interval_ms = {INTERVAL_S * 1000:.0f}
lease_ms = 0
change_ttl_ms = {TTL_S * 1000:.0f}
[decide]
alpha = 1e-6
"""
"""With this configuration a trial is almost never confirmed."""


class Node:
    """The agent as its metrics and its state file show it, without a controller."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.processes = Autopilot(
            folder, OBJECTIVES, LOOP, f"127.0.0.1:{self.port}",
            NODE.replace("virtual", "real"), CONTROLLER,
        )  # fmt: skip
        self._state = folder / "agent" / "agent.json"

    def policy(self) -> str:
        text = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=10).text
        found = re.search(r'cachepilot_tenant_policy_info\{[^}]*policy="(\w+)"', text)
        return found[1] if found else ""

    def undone(self) -> int:
        text = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=10).text
        found = re.search(r'cachepilot_agent_changes_undone_total\{outcome="applied"\} (\d+)', text)
        return int(found[1]) if found else 0

    def waiting(self) -> dict[int, int]:
        """Return the deadlines of the unconfirmed changes on disk, by name."""
        told = json.loads(self._state.read_text()) if self._state.exists() else {}
        kept = told.get("unconfirmed", {}).get("changes", {}).values()
        return {
            one["name"]: one["deadline_ms"] for all_ in kept for one in all_ if not one["undone"]
        }


@pytest.fixture
def on_trial(tmp_path: Path) -> Iterator[Node]:
    """A node with a policy on trial, whose controller was killed."""
    node = Node(tmp_path)
    here = node.processes
    try:
        here.start("controller")
        here.start("agent")
        here.until(node.waiting)
        here.until(lambda: node.policy() != "default")
        here.kill("controller")
        yield node
    finally:
        for name in list(here.running):
            here.kill(name)


def undone_s(node: Node) -> float:
    """Wait until the first policy is in force again, and return the seconds."""
    began = time.monotonic()
    node.processes.until(lambda: node.undone() and node.policy() == "default")
    return time.monotonic() - began


def test_a_change_on_trial_is_undone_when_the_controller_is_killed(on_trial: Node) -> None:
    assert len(on_trial.waiting()) == 1
    time.sleep(TTL_S / 4)
    assert on_trial.policy() != "default", "it has time to be renewed"
    assert undone_s(on_trial) < TTL_S + SLACK_S
    assert not on_trial.waiting() and on_trial.undone() == 1


def come_back(node: Node, began: float) -> None:
    """Start the controller again while the change still waits for its confirmation."""
    here = node.processes
    here.start("controller")
    here.until(lambda: here.node()["connected"] and here.tenants())
    if time.monotonic() - began > TTL_S - 1:
        pytest.skip("this host is too busy: the controller came back too late")


@pytest.mark.parametrize("mode", ["auto", "observe"])
def test_a_controller_that_lost_its_store_does_not_prolong_it(on_trial: Node, mode: str) -> None:
    here, waiting = on_trial.processes, on_trial.waiting()
    for path in here.folder.glob("c.db*"):
        path.unlink()
    (here.folder / "objectives.toml").write_text(f'{OBJECTIVES}mode = "{mode}"\n')
    began = time.monotonic()
    come_back(on_trial, began)
    # The controller may attach another policy itself. The change that it does not know is not
    # renewed.
    here.until(lambda: on_trial.waiting() != waiting)
    assert not waiting.keys() & on_trial.waiting().keys(), "it was renewed"
    assert time.monotonic() - began < TTL_S + SLACK_S
    if mode == "observe":
        here.until(lambda: on_trial.policy() == "default")
        assert on_trial.undone() == 1 and not here.history()


def test_a_controller_that_comes_back_with_its_store_goes_on_with_the_trial(on_trial: Node) -> None:
    here, waiting = on_trial.processes, on_trial.waiting()
    policy = on_trial.policy()
    come_back(on_trial, time.monotonic())
    time.sleep(TTL_S)
    assert on_trial.undone() == 0
    judged = [one["event"] for one in here.history()]
    assert {"reverted", "abandoned"} & set(judged) or on_trial.policy() == policy
    is_over = {"kept", "reverted", "abandoned"} & set(judged)
    assert is_over or on_trial.waiting().keys() == waiting.keys()
