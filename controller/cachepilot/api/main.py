# SPDX-License-Identifier: Apache-2.0
"""The controller as a process: agents by gRPC, everybody else by HTTP, until it is told to end."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from cachepilot.api.app import create_app
from cachepilot.api.fleet_service import ControlService
from cachepilot.api.service import Past
from cachepilot.api.serving.events import Events
from cachepilot.api.serving.free_files import FreeFiles
from cachepilot.api.serving.peer import NamedPeer, telling_context
from cachepilot.api.serving.shared_answer import SharedAnswer
from cachepilot.api.serving.timed_headers import TimedHeaders
from cachepilot.domain.objectives.file import read_objectives
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.past.actor import Actor, ActorKind
from cachepilot.errors import InputError
from cachepilot.fleet.access import Access
from cachepilot.fleet.config import ControllerConfig, Tls, split_address
from cachepilot.fleet.default_config import configured
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.moving.folder import FolderProvider
from cachepilot.fleet.moving.mover import Mover
from cachepilot.fleet.scrape import Scraper
from cachepilot.fleet.server import FleetServer
from cachepilot.fleet.silence import SilenceWatch
from cachepilot.fleet.tls import check_tls, http_options
from cachepilot.node.shown.changes import Topic
from cachepilot.store.failures import StoreError, StoreFailedError
from cachepilot.store.store import Store

LOG = logging.getLogger(__name__)
PRUNE_S = 3600.0
REFUSALS_S = 2.0
"""How often those who were refused are stored."""
SWITCH_S = 0.0005
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def collect_rarely() -> None:
    """Lets the garbage collector run a hundredth as often.

    A cycle of a large node makes a hundred thousand objects, none of them in a circle: looking
    for circles among them took a third of its time.
    """
    gc.set_threshold(100_000, 50, 100)


def answer_meanwhile() -> None:
    """Lets whoever asks over HTTP wait less for a thread that computes a cycle.

    By default Python takes 5 ms to hand over from one thread to another, several times per answer.
    """
    sys.setswitchinterval(SWITCH_S)


class Controller:
    """Everything that runs in the process; `start` and `stop` it in one event loop."""

    def __init__(self, config: ControllerConfig, clock: Callable[[], float] = time.time) -> None:
        """`clock` tells the time of what is stored, seconds since 1970."""
        self.config = config
        self.store = Store(config.store, config.keep_days, clock)
        interval_s = config.interval_ms / 1000
        self._scraper = Scraper(self._objectives, interval_s)
        try:
            self.fleet = Fleet(config, self.store, self._scraper)
        except StoreFailedError as error:
            raise StoreError(str(error)) from None
        folder = config.consolidation_folder
        self.mover = Mover(self.fleet, None if folder is None else FolderProvider(folder))
        self.service = ControlService(self.fleet, self.mover)
        self.server = FleetServer(self.fleet, config)
        self._silence = SilenceWatch(self.fleet, interval_s)
        self._tasks: list[asyncio.Task[None]] = []

    def _objectives(self) -> Objectives:
        return self.fleet.asked().objectives

    async def start(self) -> None:
        """Begins to listen for agents; InputError when the address cannot be had."""
        await self.server.start()
        self._tasks = [
            asyncio.create_task(self._scraper.run()),
            asyncio.create_task(self._prune()),
            asyncio.create_task(self._silence.run()),
            asyncio.create_task(self._tell_refusals()),
            asyncio.create_task(self._move()),
        ]
        if self.config.free_dir is not None:
            self._tasks.append(asyncio.create_task(self._tell_free(self.config.free_dir)))

    async def stop(self) -> None:
        """Ends sessions, then what runs beside them; the store is closed last."""
        await self.server.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.fleet.refusals.flush()
        self.store.close()

    async def _move(self) -> None:
        while True:
            await asyncio.sleep(self.config.interval_ms / 1000)
            try:
                await asyncio.to_thread(self.mover.tick)
            except Exception:
                # What is wrong with one step must not end those that undo it.
                LOG.exception("consolidation: a step failed, and is tried again")

    async def _tell_refusals(self) -> None:
        while True:
            await asyncio.sleep(REFUSALS_S)
            if await asyncio.to_thread(self.fleet.refusals.flush):
                self.fleet.changes.tell(Topic.DECISIONS)

    async def _tell_free(self, folder: Path) -> None:
        files = FreeFiles(folder)
        while True:
            await asyncio.sleep(self.config.interval_ms / 1000)
            await asyncio.to_thread(lambda: files.write(self.service.nodes()))

    async def _prune(self) -> None:
        while True:
            await asyncio.sleep(PRUNE_S)
            # The store says so itself; the next time prunes the more.
            with contextlib.suppress(StoreFailedError):
                await asyncio.to_thread(self.store.prune)


class _Http(uvicorn.Server):
    """Signals are handled by the controller, which ends sessions of agents too."""

    def __init__(self, config: uvicorn.Config, events: Events, answers: SharedAnswer[Any]) -> None:
        super().__init__(config)
        self._events, self._answers = events, answers

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen; InputError when the address cannot be had.

        It would end the process, and from inside a task nothing could keep it from that.
        """
        try:
            await super().startup(sockets)
        except SystemExit:
            host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
            problem = f"http: {host}:{self.config.port}: cannot be listened on"
            raise InputError(problem) from None
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        scheme = "https" if self.config.is_ssl else "http"
        shown = f"[{host}]" if ":" in host else host
        LOG.info("the dashboard and the API are at %s://%s:%d", scheme, shown, port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends streams first, for which it would wait."""
        self._events.close()
        await super().shutdown(sockets)
        self._answers.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """Leaves signals alone."""
        yield


def read_access(config: ControllerConfig) -> Access:
    """The tokens of a configuration; raises InputError naming their file."""
    return Access() if config.access is None else config.access.read()


def tls_options(tls: Tls, past: Past) -> dict[str, Any]:
    """What uvicorn takes: clients are known by their certificates, and who has none is told of."""

    def refused(why: str) -> None:
        past.refused(Actor(ActorKind.CERTIFICATE, "unknown"), "a TLS connection", why)

    return {
        **http_options(tls), "http": NamedPeer, "ssl_context_factory": telling_context(refused)
    }  # fmt: skip


def _http(config: ControllerConfig, service: ControlService) -> _Http:
    """The HTTP server."""
    host, port = split_address(config.http)
    app = create_app(service, access=read_access(config))
    options: dict[str, Any] = {"http": TimedHeaders}
    if config.tls is not None:
        options = tls_options(config.tls, service.past)
    return _Http(
        uvicorn.Config(
            app, host=host, port=port, log_level="warning", lifespan="off",
            timeout_graceful_shutdown=2,
            # The history names clients by their address, and anybody can write such a header.
            proxy_headers=False, **options,
        ),
        app.state.events,
        app.state.consolidated,
    )  # fmt: skip


async def serve(config: ControllerConfig, stop: asyncio.Event) -> None:
    """Runs until `stop` is set; InputError when an address cannot be had."""
    controller = Controller(config)
    http = _http(config, controller.service)
    await controller.start()
    web = asyncio.create_task(http.serve())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({stopping, web}, return_when=asyncio.FIRST_COMPLETED)
        http.should_exit = True
        await web
    finally:
        stopping.cancel()
        await controller.stop()


async def _until_signal(config: ControllerConfig) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in SIGNALS:
        loop.add_signal_handler(one, stop.set)
    await serve(config, stop)


def run(config_path: Path | None) -> None:
    """Runs the controller until SIGTERM or SIGINT, without a path by `default_config`.

    Raises InputError for a configuration that is refused or an address that cannot be had.
    """
    config = check_config(config_path)
    collect_rarely()
    answer_meanwhile()
    asyncio.run(_until_signal(config))


def check_config(config_path: Path | None) -> ControllerConfig:
    """Reads the configuration and the files that it names; raises InputError."""
    config = configured(config_path)
    read_access(config)
    if config.tls is not None:
        check_tls(config.tls)
    if config.objectives is not None:
        read_objectives(config.objectives)
    return config
