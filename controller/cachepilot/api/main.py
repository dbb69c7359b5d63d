# SPDX-License-Identifier: Apache-2.0
"""The controller process: serves agents by gRPC and all other clients by HTTP until stopped."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from cachepilot.api.app import create_app
from cachepilot.api.fleet_service import ControlService
from cachepilot.api.service import Past
from cachepilot.api.serving.events import Events
from cachepilot.api.serving.fleet_plans import FleetPlans
from cachepilot.api.serving.free_files import FreeFiles
from cachepilot.api.serving.peer import NamedPeer, telling_context
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
"""Seconds between two writes of noted refusals to the store."""
SWITCH_S = 0.0005
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def collect_rarely() -> None:
    """Let the garbage collector run about a hundredth as often.

    A cycle of a large node creates a hundred thousand objects, none of them in a reference cycle.
    Searching them for reference cycles took a third of the cycle's time.
    """
    gc.set_threshold(100_000, 50, 100)


def answer_meanwhile() -> None:
    """Let threads that answer HTTP wait less for a thread that computes a cycle.

    By default Python lets a thread run for 5 ms before another gets its turn, and an answer needs
    several turns.
    """
    sys.setswitchinterval(SWITCH_S)


class Controller:
    """Everything that runs in the process; call `start` and `stop` in the same event loop."""

    def __init__(self, config: ControllerConfig, clock: Callable[[], float] = time.time) -> None:
        """Create all parts; `clock` returns the time for stored rows, in seconds since 1970."""
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
        """Begin to listen for agents; raise InputError if the address cannot be bound."""
        await self.server.start()
        work = {
            "scraping of applications": self._scraper.run,
            "pruning of the store": self._prune,
            "watch for silent nodes": self._silence.run,
            "history of refusals": self._tell_refusals,
            "consolidation": self._move,
        }
        folder = self.config.free_dir
        if folder is not None:
            work["free_dir"] = partial(self._tell_free, folder)
        self._tasks = [asyncio.create_task(self._go_on(*one)) for one in work.items()]

    async def _go_on(self, what: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run work that never ends. If it fails, log that and begin it again."""
        while True:
            try:
                await run()
            except Exception:
                LOG.exception("%s: failed, and begins again", what)
            await asyncio.sleep(self.config.interval_ms / 1000)

    async def stop(self) -> None:
        """End sessions first, then the background tasks; close the store last."""
        await self.server.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.fleet.refusals.flush()
        self.store.close()

    async def _move(self) -> None:
        while True:
            await asyncio.sleep(self.config.interval_ms / 1000)
            await asyncio.to_thread(self.mover.tick)

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
            # The store logs the failure itself; the next call prunes what this one left.
            with contextlib.suppress(StoreFailedError):
                await asyncio.to_thread(self.store.prune)


class _Http(uvicorn.Server):
    """An HTTP server that ignores signals: the controller handles them and ends sessions, too."""

    def __init__(self, config: uvicorn.Config, events: Events, plans: FleetPlans) -> None:
        super().__init__(config)
        self._events, self._plans = events, plans

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen; raise InputError if the address cannot be bound.

        uvicorn would exit the process instead, and a SystemExit inside a task cannot be stopped.
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
        """Close event streams first, because the server waits for open streams."""
        self._events.close()
        await super().shutdown(sockets)
        self._plans.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """Do not install signal handlers."""
        yield


def read_access(config: ControllerConfig) -> Access:
    """Return the tokens of a configuration; raise InputError naming their file."""
    return Access() if config.access is None else config.access.read()


def tls_options(tls: Tls, past: Past) -> dict[str, Any]:
    """Return uvicorn's options for TLS: clients are named by certificate, failures are noted."""

    def refused(why: str) -> None:
        past.refused(Actor(ActorKind.CERTIFICATE, "unknown"), "a TLS connection", why)

    return {
        **http_options(tls), "http": NamedPeer, "ssl_context_factory": telling_context(refused)
    }  # fmt: skip


def _http(config: ControllerConfig, service: ControlService) -> _Http:
    """Return the HTTP server."""
    host, port = split_address(config.http)
    app = create_app(service, access=read_access(config))
    options: dict[str, Any] = {"http": TimedHeaders}
    if config.tls is not None:
        options = tls_options(config.tls, service.past)
    return _Http(
        uvicorn.Config(
            app, host=host, port=port, log_level="warning", lifespan="off",
            timeout_graceful_shutdown=2,
            # The history names clients by address, and any client can send a proxy header.
            proxy_headers=False, **options,
        ),
        app.state.events,
        app.state.plans,
    )  # fmt: skip


async def serve(config: ControllerConfig, stop: asyncio.Event) -> None:
    """Run until `stop` is set; raise InputError if an address cannot be bound."""
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
    """Run the controller until SIGTERM or SIGINT; without a path, with `default_config`.

    Raises InputError for a configuration that is refused or an address that cannot be bound.
    """
    config = check_config(config_path)
    collect_rarely()
    answer_meanwhile()
    asyncio.run(_until_signal(config))


def check_config(config_path: Path | None) -> ControllerConfig:
    """Return the configuration after checking it and the files that it names; raise InputError."""
    config = configured(config_path)
    read_access(config)
    if config.tls is not None:
        check_tls(config.tls)
    if config.objectives is not None:
        read_objectives(config.objectives)
    return config
