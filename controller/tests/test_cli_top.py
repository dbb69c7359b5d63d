# SPDX-License-Identifier: Apache-2.0
"""`cachepilot top` against the real application: its list and its keys."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from io import StringIO

import pytest
from fake_service import FakeService, slo, tenant
from rich.console import Console
from served import served
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from cachepilot import cli
from cachepilot.api.shapes.views import TenantView
from cachepilot.cli.asking.client import Controller
from cachepilot.cli.top.app import TopApp
from cachepilot.cli.top.columns import COLUMNS, matches, ordered
from cachepilot.cli.top.detail import TenantScreen

NAMES = [column.name for column in COLUMNS]
Running = tuple[TopApp, Pilot[None]]


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def url(service: FakeService) -> Iterator[str]:
    with served(service) as url:
        yield url


@pytest.fixture
async def running(url: str) -> AsyncIterator[Running]:
    app = TopApp(Controller(url), None, 0.1)
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: len(rows(app)) > 1)
        yield app, pilot


def rows(app: TopApp) -> list[list[str]]:
    table = app.screen_stack[0].query_one("#tenants", DataTable)
    return [[str(cell) for cell in table.get_row_at(i)] for i in range(table.row_count)]


def tenants_of(app: TopApp) -> list[str]:
    return [row[0] for row in rows(app)]


def text_of(app: TopApp, name: str) -> str:
    out = Console(width=160, file=StringIO())
    with out.capture() as shown:
        out.print(app.screen.query_one(f"#{name}", Static).content)
    return shown.get()


async def until(pilot: Pilot[None], done: Callable[[], bool]) -> None:
    for _ in range(300):
        if done():
            return
        await pilot.pause(0.05)
    pytest.fail("it did not come about in 15 s")


async def test_tenants_are_listed_and_updated(running: Running, service: FakeService) -> None:
    app, pilot = running
    assert tenants_of(app) == sorted(one.cgroup for one in service.all_tenants)
    service.all_tenants = [tenant("/newcomer", "mru", 64)]
    await until(pilot, lambda: tenants_of(app) == ["/newcomer"])


async def test_a_filter_leaves_what_holds_all_words(running: Running) -> None:
    app, pilot = running
    everything = tenants_of(app)
    await pilot.press("slash", *"sear")
    assert tenants_of(app) == [one for one in everything if "sear" in one]
    await pilot.press("enter", "escape")
    assert tenants_of(app) == everything
    await pilot.press("slash", *"nothing", "enter")
    assert tenants_of(app) == [] and "no tenant matches" in text_of(app, "problem")


async def test_rows_are_sorted_by_a_column_and_the_other_way(running: Running) -> None:
    app, pilot = running
    await pilot.press(*["greater_than_sign"] * NAMES.index("limit"))
    limits = [one.limit_bytes for one in app._shown]
    assert limits == sorted(limits, reverse=True)
    await pilot.press("r")
    assert [one.limit_bytes for one in app._shown] == sorted(limits)


async def test_the_cursor_stays_with_its_tenant(running: Running) -> None:
    app, pilot = running
    table = app.query_one("#tenants", DataTable)
    await pilot.press("j")
    chosen = tenants_of(app)[table.cursor_row]
    await pilot.press("r")
    assert tenants_of(app)[table.cursor_row] == chosen


async def test_enter_opens_a_tenant_and_escape_returns(running: Running) -> None:
    app, pilot = running
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, TenantScreen))
    await until(pilot, lambda: "policy" in text_of(app, "text"))
    await pilot.press("h")
    await until(pilot, lambda: "predicted" in text_of(app, "text"))
    await pilot.press("slash", "r", "escape")
    assert not isinstance(app.screen, TenantScreen)


async def test_an_outage_is_shown_and_the_last_state_stays(service: FakeService) -> None:
    with served(service) as url:
        app = TopApp(Controller(url), None, 0.1)
        context = app.run_test(size=(160, 40))
        pilot = await context.__aenter__()
        await until(pilot, lambda: len(rows(app)) > 1)
    await until(pilot, lambda: "no controller at" in text_of(app, "problem"))
    assert len(rows(app)) > 1
    await context.__aexit__(None, None, None)


async def test_a_slow_controller_is_asked_once_at_a_time(url: str) -> None:
    answers, asked = threading.Event(), []

    class Slow(Controller):
        def tenants(self, node: str | None = None) -> list[TenantView]:
            asked.append(node)
            answers.wait()
            return super().tenants(node)

    app = TopApp(Slow(url), None, 3600.0)
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: len(asked) == 1)
        for _ in range(5):
            app._ask()
        await pilot.pause()
        answers.set()
        await until(pilot, lambda: len(rows(app)) > 1)
        assert len(asked) == 1
        app._ask()
        await until(pilot, lambda: len(asked) == 2)


async def test_a_late_answer_does_not_replace_the_page_that_is_shown(running: Running) -> None:
    app, pilot = running
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, TenantScreen))
    screen = app.screen
    assert isinstance(screen, TenantScreen)
    earlier = screen._ask
    await pilot.press("h")
    await until(pilot, lambda: "predicted" in text_of(app, "text"))
    screen._draw(earlier, "late", "")
    assert "late" not in text_of(app, "text")


def test_tenants_are_filtered_by_the_words_that_are_shown_of_their_slos() -> None:
    def having(measured: float, state: str) -> TenantView:
        own = slo("throughput_ops", 5000.0, measured, state)
        return tenant("/db", "lirs", 64).model_copy(update={"slos": [own]})

    missed = having(4000.0, "met")
    assert matches(missed, "missed") and not matches(missed, "met")
    outbid = having(5500.0, "outbid")
    assert matches(outbid, "met") and not matches(outbid, "missed")
    assert matches(outbid, "met, predicted to be missed")
    assert matches(outbid, "predicted missed db") and matches(outbid, "predic")
    assert not matches(outbid, "missed predicted") and not matches(outbid, "predicted met")
    assert not matches(outbid, "outbid"), "no word that is shown"
    never = having(4000.0, "unattainable")
    assert matches(never, "missed unattainable")
    assert matches(having(4000.0, "approaching"), "missed predicted to be met")


def test_names_match_wherever_they_are_in_a_filter() -> None:
    one = tenant("/predicted-db", "lirs", 64)
    assert matches(one, "predicted-db lirs") and not matches(one, "predicted-db lfu")


def test_unknown_values_are_last_in_either_order() -> None:
    known, unknown = tenant("/known", "lru", 64), tenant("/unknown", "lru", 64)
    unknown = unknown.model_copy(update={"hit_ratio": None})
    hits = COLUMNS[NAMES.index("hits")]
    for is_reversed in (False, True):
        found = ordered([unknown, known], hits, is_reversed)
        assert [one.cgroup for one in found] == ["/known", "/unknown"]


def test_every_word_of_a_filter_counts() -> None:
    one = tenant("/db", "lirs", 64)
    assert matches(one, "") and matches(one, "DB lirs") and not matches(one, "db sieve")


def test_top_needs_a_terminal(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["top", "--controller", url]) == cli.EXIT_BAD_INPUT
    assert "needs a terminal" in capsys.readouterr().err
