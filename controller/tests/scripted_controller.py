# SPDX-License-Identifier: Apache-2.0
"""A controller scripted by the test: it speaks the protocol with an agent in the guest.

A story receives each tenant of each snapshot, and yields what the next plan asks for, or None.
"""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import grpc

from cachepilot.v1 import session_pb2 as wire

Story = Generator[dict[str, Any] | None, wire.Tenant, None]


class Controller:
    """Sends each snapshot's tenants to a story, and the story's answers as a plan.

    If it is `mortal`, it dies once its first action is acknowledged, and answers no more.
    """

    def __init__(self, story: Callable[[], Story], mortal: bool = False) -> None:
        self.hello = wire.Hello()
        self.snapshots: list[wire.Snapshot] = []
        self.results: list[wire.Result] = []
        self._story, self._begun, self._mortal = story(), False, mortal
        self._server = grpc.server(ThreadPoolExecutor(2))
        method: Any = grpc.stream_stream_rpc_method_handler(self._session)
        handler = grpc.method_handlers_generic_handler("cachepilot.v1.Fleet", {"Session": method})
        self._server.add_generic_rpc_handlers((handler,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")

    def __enter__(self) -> "Controller":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None)

    def _session(self, said: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        welcome = wire.Welcome(interval_ms=500)
        yield wire.ControllerMessage(welcome=welcome).SerializeToString()
        for message in map(wire.AgentMessage.FromString, said):
            match message.WhichOneof("message"):
                case "hello":
                    self.hello = message.hello
                case "ack":
                    self.results += message.ack.results
                    if self._mortal and self.results:
                        Thread(target=self._server.stop, args=(None,)).start()
                        return
                case "snapshot":
                    plan = self._plan(message.snapshot)
                    yield wire.ControllerMessage(plan=plan).SerializeToString()

    def _plan(self, snapshot: wire.Snapshot) -> wire.Plan:
        self.snapshots.append(snapshot)
        plan = wire.Plan(epoch=len(self.snapshots), snapshot=snapshot.sequence)
        for tenant in snapshot.tenants:
            if not self._begun:
                next(self._story)
                self._begun = True
            wanted = _next_wish(self._story, tenant)
            if wanted is not None:
                action = plan.actions.add(
                    cgroup=tenant.cgroup, cgroup_id=tenant.cgroup_id, **wanted
                )
                if action.HasField("revert_to"):
                    action.change_epoch = plan.epoch
        return plan


def _next_wish(story: Story, tenant: wire.Tenant) -> dict[str, Any] | None:
    try:
        return story.send(tenant)
    except StopIteration:
        return None


def until(holds: Callable[[wire.Tenant], bool]) -> Story:
    """Ask for nothing until this holds for a tenant."""
    while not holds((yield None)):
        pass
