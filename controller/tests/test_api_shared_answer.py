# SPDX-License-Identifier: Apache-2.0
"""All requests share one computation: while it runs, and for a while after, until a change."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import pytest
from fake_service import FakeService

from cachepilot.api.app import create_app
from cachepilot.api.serving.shared_answer import FRESH_S, SharedAnswer
from cachepilot.api.shapes.questions import Consolidation, Spread
from cachepilot.errors import InputError
from cachepilot.node.shown.changes import Topic

MANY = 50
WAIT_S = 10.0


@dataclass
class Slow:
    """Computes its own number as soon as `may` is set."""

    may: threading.Event = field(default_factory=threading.Event)
    begun: int = 0
    version: int = 0
    now_s: float = 0.0
    fails: bool = False

    def compute(self) -> int:
        self.begun += 1
        number = self.begun
        assert self.may.wait(WAIT_S)
        if self.fails:
            raise InputError("no answer")
        return number


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def shared(slow: Slow) -> Iterator[SharedAnswer[int]]:
    executor = ThreadPoolExecutor(1)
    yield SharedAnswer(slow.compute, lambda: slow.version, executor, clock=lambda: slow.now_s)
    slow.may.set()
    executor.shutdown()


async def _until_begun(slow: Slow, times: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while slow.begun < times:
            await asyncio.sleep(0.001)


async def test_all_requests_share_one_answer_and_a_cancelled_one_does_not_stop_it(
    slow: Slow, shared: SharedAnswer[int]
) -> None:
    asking = [asyncio.create_task(shared.get()) for _ in range(MANY)]
    await _until_begun(slow, 1)
    asking[0].cancel()
    slow.may.set()
    assert await asyncio.gather(*asking[1:]) == [1] * (MANY - 1)
    slow.now_s += FRESH_S - 0.01
    assert await shared.get() == 1
    slow.now_s += 0.02
    assert await shared.get() == 2


async def test_an_answer_begun_before_a_change_is_not_given_after_it(
    slow: Slow, shared: SharedAnswer[int]
) -> None:
    before = asyncio.create_task(shared.get())
    await _until_begun(slow, 1)
    slow.version += 1
    after = [asyncio.create_task(shared.get()) for _ in range(MANY)]
    await asyncio.sleep(0.01)
    assert slow.begun == 1
    slow.may.set()
    assert await before == 1
    assert await asyncio.gather(*after) == [2] * MANY
    slow.version += 1
    assert await shared.get() == 3


async def test_a_failure_is_not_kept(slow: Slow, shared: SharedAnswer[int]) -> None:
    slow.may.set()
    slow.fails = True
    with pytest.raises(InputError, match="no answer"):
        await shared.get()
    slow.fails = False
    assert await shared.get() == 2


class Counting(FakeService):
    """Counts its plans of the whole fleet, and the most that were made at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.running = self.most = 0

    def _count(self, what: str) -> None:
        self.asked[what] += 1
        self.running += 1
        self.most = max(self.most, self.running)
        time.sleep(0.05)
        self.running -= 1

    def consolidation(self) -> Consolidation:
        self._count("consolidation")
        return super().consolidation()

    def spread(self) -> Spread:
        self._count("consolidation/spread")
        return super().spread()


async def test_plans_of_the_fleet_are_computed_once_for_many_and_one_at_a_time() -> None:
    service, paths = Counting(), ("consolidation", "consolidation/spread")
    app = create_app(service)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7071") as client:
        for expected in (1, 1, 2):
            if expected == 2:
                service.changes.tell(Topic.ASKED)
            asking = (client.get(f"/api/v1/{path}") for _ in range(MANY) for path in paths)
            answers = await asyncio.gather(*asking)
            assert {one.status_code for one in answers} == {200}
            assert service.asked == dict.fromkeys(paths, expected)
    assert service.most == 1
    app.state.plans.close()
