# SPDX-License-Identifier: Apache-2.0
"""Tenants move between nodes: a controller, two agents, and a folder of workloads per node.

The nodes are simulated in real time.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from experiments.autopilot.children import Children
from experiments.consolidation.moving.client import Client
from experiments.consolidation.moving.processes import Fleet, Node, Tenant

from cachepilot import agent
from cachepilot.api.shapes.questions import Drain, Move
from cachepilot.api.shapes.rollout import RolloutView
from cachepilot.domain.moving import MoveState, RolloutState
from cachepilot.errors import InputError

MIB = 1 << 20
FITS = {"kind": "loop", "pages": 200}
LARGE = {"kind": "zipf", "alpha": 0.7, "pages": 4000}
WITHIN_S = 90.0
SLOW = Tenant("/t/large", LARGE, 3 * MIB, throughput_ops=450.0)
"""This tenant always reads from the device. On a slow device it misses its SLO."""
HOME = Node("a", [Tenant("/t/kv", FITS, 2 * MIB, throughput_ops=500.0), SLOW], 16 * MIB)
TARGET = Node("b", [Tenant("/t/web", FITS, 2 * MIB)], 16 * MIB, read_us=20_000.0)


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    try:
        agent.find({})
    except InputError as error:
        pytest.skip(f"there is no agent: {error}")
    with Children(tmp_path) as found:
        yield found


def _drain(cgroup: str, from_node: str, to_node: str, pages: int, limit_mib: int = 2) -> Drain:
    move = Move(
        cgroup=cgroup, from_node=from_node, to_node=to_node, limit_bytes=limit_mib * MIB,
        policy="default",
        predicted_ops=0.0, cold_pages=pages, cold_s=1.0,
    )  # fmt: skip
    return Drain(node=from_node, moves=(move,), freed_bytes=16 * MIB)


def _is_measured(client: Client) -> bool:
    return sum(one.throughput_ops is not None for one in client.tenants()) == 3


def _where(client: Client) -> dict[str, str]:
    return {one.cgroup: one.node for one in client.tenants()}


def _ignore(_: RolloutView) -> None:
    pass


def test_a_move_is_kept_one_that_misses_its_slo_is_undone_and_a_kill_changes_nothing(
    tmp_path: Path, children: Children
) -> None:
    fleet = Fleet(tmp_path, (HOME, TARGET), interval_ms=100)
    fleet.write()
    controller = fleet.start_controller(children)
    fleet.start_agents(children)
    client = Client(fleet.addresses.http_url, children)
    client.until("throughputs", lambda: _is_measured(client), WITHIN_S)

    begun = client.apply([_drain("/t/kv", "a", "b", 200)])
    assert (begun.state, begun.moves[0].state) == (RolloutState.RUNNING, MoveState.WAITING)
    client.until("the move", (fleet.workloads / "b" / "t-kv.toml").exists, WITHIN_S)
    # The move is under way. A controller that starts now finds it and judges it.
    controller.process.kill()
    controller.process.wait()
    children.forget(controller)
    fleet.start_controller(children)
    kept = client.ended(WITHIN_S, _ignore)
    # The drain was of one of the node's two tenants.
    assert (kept.state, kept.emptied) == (RolloutState.STOPPED, [])
    assert kept.why == "a is not empty: /t/large is on it"
    own = next(one for one in kept.moves[0].checks if one.cgroup == "/t/kv")
    assert own.before_ops is not None and own.after_ops is not None
    assert own.after_ops > 0.9 * own.before_ops > 0 and own.met >= 15
    assert [one.kind for one in kept.moves[0].checks] == ["throughput_ops", "keep"]
    client.until("the tenant", lambda: _where(client).get("/t/kv") == "b", WITHIN_S)

    client.apply([_drain("/t/large", "a", "b", 100, 3)])
    back = client.ended(WITHIN_S, _ignore)
    assert back.state is RolloutState.TURNED_BACK
    assert back.moves[0].state is MoveState.RETURNED and "/t/large meets" in back.why
    assert (fleet.workloads / "a" / "t-large.toml").exists()
    client.until("its return", lambda: _where(client).get("/t/large") == "a", WITHIN_S)
    client.close()
