# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the browser tests: Chromium, and a real controller and agent behind the dashboard."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from autopilot_processes import KV, LOOP, Autopilot
from playwright.sync_api import Browser, Page, expect, sync_playwright

expect.set_options(timeout=30_000)
CHROMIUM = Path("/usr/bin/chromium")
TIMEOUT_MS = 40_000
NODE = """
pace = "real"
seed = 1
[device]
read_us = 90.0
parallelism = 32
iops = 20000
"""
FAST = "interval_ms = 200\n"
"""Configuration of five control intervals a second, so that tests need not wait for decisions."""
OBJECTIVES = '[[tenant]]\ncgroup = "*"\nmemory_min = "8MiB"\n'

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Debian's Chromium without a window.

    The scope is a module and not the session: while Chromium runs, an event loop runs in this
    thread, and later tests could not start a loop of their own.
    """
    if not CHROMIUM.exists():
        pytest.skip("there is no /usr/bin/chromium: scripts/setup dev")
    with sync_playwright() as playwright:
        # The sandbox needs user namespaces, which root in a container does not have.
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Return a function that opens the dashboard at an address. Any page error fails the test."""
    contexts, wrong = [], []

    def one(address: str, path: str = "", scheme: str = "light", width: int = 1440) -> Page:
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "console",
            lambda said: wrong.append(said.text) if "Content Security" in said.text else None,
        )
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(f"http://{address}/")
            else wrong.append(f"asks elsewhere: {asked.url}"),
        )  # fmt: skip
        page.goto(f"http://{address}/{path}")
        return page

    yield one
    for context in contexts:
        context.close()
    assert wrong == []


def begin(folder: Path, agent: bool = True, **more: str) -> Autopilot:
    """Start a controller, and an agent unless `agent` is false, with five intervals a second."""
    found = Autopilot(
        folder,
        more.get("objectives", OBJECTIVES),
        more.get("tenants", KV + LOOP),
        node=NODE,
        controller=more.get("interval", FAST) + more.get("controller", ""),
    )
    if "token" in more:
        found.http.headers["Authorization"] = f"Bearer {more['token']}"
    found.start("controller")
    found.until(lambda: _answers(found))
    if agent:
        found.start("agent")
        found.until(found.tenants)
    return found


def _answers(pilot: Autopilot) -> bool:
    try:
        return httpx.get(f"http://{pilot.address}/healthz").status_code == 200
    except httpx.TransportError:
        return False


def end(pilot: Autopilot) -> None:
    """End the processes of a set-up."""
    for name in list(pilot.running):
        pilot.kill(name)
    pilot.http.close()


@pytest.fixture(scope="module")
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Autopilot]:
    """Share one set-up among the tests of a module. These tests change nothing in it."""
    found = begin(tmp_path_factory.mktemp(request.module.__name__.rpartition(".")[2]))
    yield found
    end(found)


@pytest.fixture
def pilot(tmp_path: Path) -> Iterator[Autopilot]:
    """Start a set-up for a single test, which may change it."""
    found = begin(tmp_path)
    yield found
    end(found)
