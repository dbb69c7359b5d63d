# SPDX-License-Identifier: Apache-2.0
"""The fleet page in Chromium, with the real controller service and a plant of many tenants."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from experiments.control_loop.plant import MIB, Plant, PlantTenant, power
from experiments.control_loop.world import World
from playwright.sync_api import Browser, Page, sync_playwright

from cachepilot.api.app import create_app
from cachepilot.api.main import answer_meanwhile, collect_rarely
from cachepilot.domain.objectives.objective import Mode, Objective

CHROMIUM = "/usr/bin/chromium"
SIZES = tuple(MIB << power_of_two for power_of_two in range(8))
WARM_UP_CYCLES = 5
TIMEOUT_MS = 30_000
ROWS = "section[aria-labelledby=tenants-title] tbody tr[aria-rowindex]"
SHOWN = """epoch => {
  const node = document.querySelector("section[aria-labelledby=nodes-title] tbody tr");
  return node !== null && node.cells[8].textContent.trim() === String(epoch);
}"""
WATCH = """() => {
  const rows = document.querySelector("section[aria-labelledby=tenants-title] tbody");
  const nodes = document.querySelector("section[aria-labelledby=nodes-title] tbody");
  window.changed = {};
  const note = (name, part) => new MutationObserver(() => {
    window.changed[name] = Date.now();
  }).observe(part, { subtree: true, childList: true, characterData: true });
  note("rows", rows);
  note("nodes", nodes);
}"""


@dataclass
class Measured:
    """Milliseconds of each run, and the number of rows of tenants in the page."""

    interactive_ms: list[float] = field(default_factory=list)
    update_ms: list[float] = field(default_factory=list)
    search_ms: list[float] = field(default_factory=list)
    rows: int = 0


def _world(path: Path, tenants: int) -> World:
    curves = {"default": power(32 * MIB, 0.8), "lfu": power(16 * MIB, 1.0)}
    plants = [PlantTenant(f"/fleet/tenant-{n:04}", curves, 16 * MIB) for n in range(tenants)]
    objectives = [
        Objective("/fleet/*0", throughput_ops=100.0, mode=Mode.OBSERVE),
        Objective("*", mode=Mode.OBSERVE),
    ]
    found = World(path, Plant(plants, tenants * 16 * MIB, SIZES), objectives)
    found.run(WARM_UP_CYCLES)
    return found


@contextmanager
def _served(world: World) -> Iterator[str]:
    app = create_app(world.service)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the server did not start")
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        app.state.events.close()
        server.should_exit = True
        thread.join()


def _interactive(browser: Browser, url: str) -> tuple[Page, float]:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(TIMEOUT_MS)
    started = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_selector(ROWS)
    page.fill("#search", "tenant")
    return page, (time.perf_counter() - started) * 1e3


def _update(page: Page, world: World) -> float:
    """Return the time from the announcement of a cycle until nodes and tenants have changed."""
    told: list[float] = []
    stop = world.service.changes.listen(lambda topic, _: told.append(time.time() * 1e3))
    page.wait_for_timeout(600)
    page.evaluate(WATCH)
    world.run(1)
    stop()
    report = world.loop.report
    if report is None:
        raise RuntimeError("there is no report")
    page.wait_for_function(SHOWN, arg=report.epoch)
    page.wait_for_function("() => window.changed.rows !== undefined")
    changed: dict[str, float] = page.evaluate("() => window.changed")
    return max(changed.values()) - told[0]


def _search(page: Page, word: str) -> float:
    started = time.perf_counter()
    page.fill("#search", word)
    page.wait_for_function(
        "word => { const rows = [...document.querySelectorAll("
        f"{ROWS!r})]; return rows.length > 0 && rows.every(r => r.textContent.includes(word)); }}",
        arg=word,
    )
    return (time.perf_counter() - started) * 1e3


def measure(path: Path, tenants: int, runs: int) -> Measured:
    """Take every measurement `runs` times, after one that warms up Chromium and the controller."""
    found = Measured()
    collect_rarely()
    answer_meanwhile()
    world = _world(path, tenants)
    with _served(world) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for run in range(runs + 1):
            page, interactive_ms = _interactive(browser, url)
            page.wait_for_timeout(500)
            update_ms = _update(page, world)
            page.wait_for_timeout(500)
            search_ms = _search(page, f"tenant-0{run:02}")
            if run > 0:
                found.interactive_ms.append(interactive_ms)
                found.update_ms.append(update_ms)
                found.search_ms.append(search_ms)
            page.fill("#search", "")
            page.wait_for_timeout(500)
            found.rows = page.locator(ROWS).count()
            page.context.close()
        browser.close()
    return found
