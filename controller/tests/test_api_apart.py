# SPDX-License-Identifier: Apache-2.0
"""No session of an agent waits for a call of the HTTP interface."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from test_fleet_server import agent, begin, controller, exchange, plant

from cachepilot.api.app import create_app
from cachepilot.api.shapes.questions import Pin
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.errors import InputError

DEADLINE_S = 30.0
"""The longest time of a call. A session's answer must come sooner."""
QUESTION = {"node": "plant", "limit_bytes": {"/a": 1 << 26}}
CALLS: list[tuple[str, str, str, Any]] = [
    ("nodes", "GET", "/api/v1/nodes", None),
    ("nodes", "GET", "/api/v1/fleet", None),
    ("nodes", "GET", "/metrics", None),
    ("nodes", "GET", "/healthz", None),
    ("tenants", "GET", "/api/v1/tenants", None),
    ("tenant", "GET", "/api/v1/tenants/detail?cgroup=/a", None),
    ("history", "GET", "/api/v1/history", None),
    ("objectives", "GET", "/api/v1/objectives", None),
    ("set_objectives", "PUT", "/api/v1/objectives", {"tenant": [{"cgroup": "/a"}]}),
    ("set_objective", "POST", "/api/v1/objectives", {"cgroup": "/a"}),
    ("delete_objective", "DELETE", "/api/v1/objectives?cgroup=/a", None),
    ("pin", "POST", "/api/v1/pins", {"cgroup": "/a", "policy": "lfu"}),
    ("revert", "POST", "/api/v1/reverts", {"decision": 1}),
    ("revert_change", "POST", "/api/v1/reverts", {"change": 1}),
    ("unpin", "DELETE", "/api/v1/pins?cgroup=/a", None),
    ("what_if", "POST", "/api/v1/what-if", QUESTION),
    ("consolidation", "GET", "/api/v1/consolidation", None),
]


class Slow:
    """A call that plans or waits for the disk for a long time."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.ended = (threading.Event() for _ in range(3))

    def __call__(self, *_: object) -> Any:
        self.begun.set()
        self.may_end.wait(DEADLINE_S)
        self.ended.set()
        raise InputError("slow: it took long")


@pytest.mark.parametrize(
    ("name", "method", "path", "body"), CALLS, ids=[f"{one[1]} {one[2]}" for one in CALLS]
)
async def test_a_slow_call_does_not_delay_the_answer_to_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, method: str, path: str, body: Any
) -> None:
    node, slow = plant(), Slow()
    async with controller(tmp_path) as running, agent(running) as one:
        await begin(one, node)
        await exchange(one, node)
        monkeypatch.setattr(running.service, name, slow)
        app = create_app(running.service)
        # As in a server, an exception of a handler becomes an answer.
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            asked = asyncio.create_task(client.request(method, path, json=body))
            while not slow.begun.is_set():
                await asyncio.sleep(0.005)
                assert not asked.done(), asked.result().text
            await exchange(one, node)
            assert not slow.ended.is_set(), "the session waited for the call"
            slow.may_end.set()
            assert "slow: it took long" in (await asked).text or path == "/metrics"
        app.state.plans.close()


async def test_a_cycle_does_not_wait_for_a_change_that_is_being_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even a cycle that finds an expired pin does not wait. The next cycle ends the pin."""
    node, slow = plant(), Slow()
    async with controller(tmp_path) as running, agent(running) as one:
        await begin(one, node)
        await exchange(one, node)
        ends_s = time.time() + 2.0
        running.service.pin(Pin(cgroup="/a", policy="lfu", until_s=ends_s))
        # This cycle stores what precedes the pin. Later it would have to wait for the store.
        await exchange(one, node)
        monkeypatch.setattr(running.store, "set_objectives", slow)
        stored = asyncio.create_task(
            asyncio.to_thread(running.service.set_objectives, Objectives())
        )
        while not slow.begun.is_set() or time.time() < ends_s:
            await asyncio.sleep(0.005)
        await exchange(one, node)
        assert not slow.ended.is_set(), "the cycle waited for the store"
        slow.may_end.set()
        with pytest.raises(InputError):
            await stored
        await exchange(one, node)
        assert running.fleet.asked().pins == ()
