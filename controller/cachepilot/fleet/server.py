# SPDX-License-Identifier: Apache-2.0
"""The gRPC service `Fleet`: one session per node, one plan per snapshot.

Only the messages are generated code; the service's single method is registered here. A message that
violates the protocol ends the session with a gRPC status and a one-line reason.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from cachepilot.domain.past.actor import Actor, ActorKind
from cachepilot.errors import InputError
from cachepilot.fleet.config import ControllerConfig
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.peer import StrangerError, address_of, check_peer
from cachepilot.fleet.sessions import DisplacedError, NameTakenError, Session, Sessions
from cachepilot.fleet.tls import agent_credentials
from cachepilot.node.freshness import stale_after_s
from cachepilot.node.loop import NodeLoop
from cachepilot.sense.validate import ProtocolError, check_hello, check_snapshot
from cachepilot.v1 import session_pb2 as wire

LOG = logging.getLogger(__name__)
SERVICE = "cachepilot.v1.Fleet"
METHOD = "Session"
MESSAGE_MAX = (4 << 20) + (256 << 10)
"""The protocol's limit on a snapshot's size, plus room for the enclosing message."""
HELLO_S = 10.0
"""Seconds within which a new session must send its hello."""
SILENCE_INTERVALS, SILENCE_MIN_S = 30, 60.0
"""A session is ended after this many intervals, and at least this many seconds, of silence."""
WRITE_S = 10.0
SESSIONS_MAX = 4096
WORKERS = 4
GRACE_S = 2.0

Context = grpc.aio.ServicerContext[bytes, bytes]


class FleetServer:
    """Listens for agents; `port` is 0 until `start` returns."""

    def __init__(self, fleet: Fleet, config: ControllerConfig) -> None:
        self._fleet, self._config = fleet, config
        self._silence_s = max(SILENCE_MIN_S, SILENCE_INTERVALS * config.interval_ms / 1000)
        self._sessions = Sessions(stale_after_s(config.interval_ms / 1000), time.monotonic)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="cycle")
        self._server: grpc.aio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Begin to listen; raise InputError if the address cannot be bound."""
        options = (
            ("grpc.max_receive_message_length", MESSAGE_MAX),
            ("grpc.max_send_message_length", MESSAGE_MAX),
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.so_reuseport", 0),
        )
        server = grpc.aio.server(options=options)
        method: Any = grpc.stream_stream_rpc_method_handler(self._session)
        handler = grpc.method_handlers_generic_handler(SERVICE, {METHOD: method})
        server.add_generic_rpc_handlers((handler,))
        listen = self._config.listen
        try:
            if self._config.tls is None:
                self.port = server.add_insecure_port(listen)
            else:
                self.port = server.add_secure_port(listen, agent_credentials(self._config.tls))
        except (RuntimeError, OSError) as error:
            raise InputError(f"listen: {listen}: cannot be listened on: {error}") from None
        await server.start()
        self._server = server
        LOG.info("agents are expected at %s, port %d", listen, self.port)

    async def stop(self) -> None:
        """End every session, and wait until their cycles have ended and their nodes are stored."""
        if self._server is not None:
            await self._server.stop(GRACE_S)
        # For gRPC a call is over once its connection is, although its coroutine still runs: the
        # workers must not be shut down before it has ended its node.
        if self._tasks:
            await asyncio.wait(self._tasks)
        # A cycle may take long, and the event loop goes on meanwhile.
        await asyncio.to_thread(self._workers.shutdown)

    async def _session(self, _: AsyncIterator[bytes], context: Context) -> None:
        if len(self._tasks) >= SESSIONS_MAX:
            text = f"too many sessions (allowed: {SESSIONS_MAX})"
            await _refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        task: Any = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._serve(context)
        except ProtocolError as error:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except StrangerError as error:
            named = ", ".join((*error.names, address_of(context.peer())))
            actor = Actor(ActorKind.CERTIFICATE, named)
            self._fleet.refusals.note(actor, f"a session as node {error.node}", str(error))
            await _refuse(context, grpc.StatusCode.PERMISSION_DENIED, str(error))
        except DisplacedError as error:
            await _refuse(context, grpc.StatusCode.ABORTED, str(error))
        except NameTakenError as error:
            # Do not log each refusal: the second agent retries forever. `rivals` logs it once and
            # shows it as a condition of the node.
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, str(error))
        except InputError as error:
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except TimeoutError:
            await _refuse(context, grpc.StatusCode.DEADLINE_EXCEEDED, "nothing was said in time")

    async def _serve(self, context: Context) -> None:
        first: Any = await asyncio.wait_for(context.read(), HELLO_S)
        if first is grpc.aio.EOF:
            return
        message = _parsed(first)
        if message.WhichOneof("message") != "hello":
            raise ProtocolError("the first message must be a hello")
        check_hello(message.hello)
        if self._config.tls is not None:
            check_peer(message.hello.node, context.auth_context())
        session = self._enter(message.hello, address_of(context.peer()))
        cut: Any = lambda _: self._sessions.cut(session)  # noqa: E731
        context.add_done_callback(cut)
        try:
            await session.wait_for_older()
            loop = await self._run(self._fleet.join, message.hello.node)
            await self._run(loop.begin, message.hello, session.address)
            loop.connected = True
            LOG.info("node %s: a session began", loop.name)
            welcome = wire.Welcome(interval_ms=self._config.interval_ms)
            await _write(context, wire.ControllerMessage(welcome=welcome))
            try:
                await self._listen(context, session, loop)
            finally:
                await self._end(loop)
                LOG.info("node %s: a session ended", loop.name)
        finally:
            self._sessions.leave(session)

    def _enter(self, hello: wire.Hello, address: str) -> Session:
        try:
            return self._sessions.enter(hello, address)
        except NameTakenError:
            self._fleet.rivals.refused(hello.node, address, self._fleet.store.now_s())
            raise

    async def _listen(self, context: Context, session: Session, loop: NodeLoop) -> None:
        sequence = 0
        while True:
            raw = await self._next(context, session)
            if raw is grpc.aio.EOF:
                session.has_left = not context.cancelled()
                return
            message = _parsed(raw)
            kind = message.WhichOneof("message")
            if kind == "ack":
                loop.acknowledge(message.ack)
                session.acked_epoch = max(session.acked_epoch, message.ack.epoch)
            elif kind == "snapshot":
                check_snapshot(message.snapshot, sequence)
                sequence = message.snapshot.sequence
                plan = await self._run(loop.cycle, message.snapshot)
                await _write(context, wire.ControllerMessage(plan=plan))
                await self._run(loop.after)
            else:
                raise ProtocolError("after the hello there are snapshots and acknowledgements")

    async def _end(self, loop: NodeLoop) -> None:
        """End the session of a loop, and finish doing so even if this task is cancelled meanwhile.

        Otherwise the node's next session could begin before `end` runs, and `end` would end the
        next session instead.
        """
        ending = asyncio.ensure_future(self._run(loop.end))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait((ending,))
            raise

    async def _next(self, context: Context, session: Session) -> Any:
        """Return the next message, or EOF.

        Raises TimeoutError after too long a silence and DisplacedError if a newer session of the
        node displaced this one.
        """
        reading = asyncio.ensure_future(context.read())
        session.waits_since = time.monotonic()
        try:
            done, _ = await asyncio.wait(
                (reading, session.displaced),
                timeout=self._silence_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            if reading.done():
                session.waits_since = None
            else:
                reading.cancel()
        if session.displaced in done:
            raise DisplacedError(f"node {session.node}: displaced by a newer session of this node")
        if reading not in done:
            raise TimeoutError
        return reading.result()

    async def _run(self, call: Any, *arguments: Any) -> Any:
        """Run `call` on a worker thread: planning is slow, and other sessions go on meanwhile."""
        running = asyncio.get_running_loop()
        return await running.run_in_executor(self._workers, call, *arguments)


def _parsed(raw: bytes) -> wire.AgentMessage:
    try:
        return wire.AgentMessage.FromString(raw)
    except DecodeError:
        raise ProtocolError("a message that is no AgentMessage of cachepilot.v1") from None


async def _write(context: Context, message: wire.ControllerMessage) -> None:
    await asyncio.wait_for(context.write(message.SerializeToString()), WRITE_S)


async def _refuse(context: Context, code: grpc.StatusCode, text: str) -> NoReturn:
    LOG.warning("a session is refused: %s", text)
    await context.abort(code, text)
