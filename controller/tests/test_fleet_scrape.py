# SPDX-License-Identifier: Apache-2.0
"""An application's counter over real HTTP, and applications that misbehave."""

import asyncio
import gzip
import logging
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from cachepilot.domain.objectives.objective import Counter, Indicator, Objective, Objectives
from cachepilot.fleet import scrape as scrape_module
from cachepilot.fleet.scrape import BODY_MAX, STALE_INTERVALS, Scraper, series_value
from cachepilot.sense.node_scrape import Scrape

METRICS = """# HELP gets_total Operations.
# TYPE gets_total counter
gets_total{op="get",shard="1"} 100
gets_total{op="get",shard="2"} 20
gets_total{op="scan",shard="1"} 3
# TYPE seconds histogram
seconds_bucket{le="+Inf"} 7
seconds_count 7
seconds_sum 0.5
odd NaN
"""
Answer = Callable[[BaseHTTPRequestHandler], None]


class Application:
    """A server whose answer can be changed. `answers` counts the requests."""

    def __init__(self) -> None:
        self.answer: Answer = text(METRICS)
        self.answers = 0
        self.closing = threading.Event()
        application = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                application.answers += 1
                try:
                    application.answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/metrics"

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()


def text(body: str | bytes, status: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        raw = body.encode() if isinstance(body, str) else body
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    return answer


@pytest.fixture
def application(monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    monkeypatch.setattr(scrape_module, "TIMEOUT_S", 60.0)
    found = Application()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield found
    found.close()
    thread.join(10)


def indicator(url: str, metric: str = "gets_total") -> Indicator:
    return Indicator(Counter.PROMETHEUS, url, metric)


def value(found: Scrape | None) -> float | None:
    return None if found is None else found.value


def scraper(*wanted: Indicator) -> Scraper:
    stated = Objectives(tuple(Objective(f"/{i}", indicator=one) for i, one in enumerate(wanted)))
    return Scraper(lambda: stated, 1.0)


def look(found: Scraper, rounds: int = 1) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(timeout=scrape_module.TIMEOUT_S) as client:
            for _ in range(rounds):
                await found.scrape(client)

    asyncio.run(run())


def test_counters_are_summed_over_the_labels_that_are_asked_for(application: Application) -> None:
    names = ("gets_total", 'gets_total{op="get"}', 'gets_total{op="get",shard="2"}',
             "seconds_count", "missing_total", "odd", 'gets_total{op="put"}', "{}")  # fmt: skip
    wanted = [indicator(application.url, name) for name in names]
    found = scraper(*wanted)
    look(found)
    assert [value(found(one)) for one in wanted] == [123, 120, 20, 7, None, None, None, None]
    assert (application.answers, found.failures_total) == (1, 0)


def test_a_value_is_followed_and_forgotten_with_its_objective(application: Application) -> None:
    one = indicator(application.url)
    stated = [Objectives((Objective("/a", indicator=one),))]
    found = Scraper(lambda: stated[0], 1.0)
    look(found)
    application.answer = text("gets_total 130\n")
    look(found)
    assert value(found(one)) == 130
    stated[0] = Objectives()
    look(found)
    assert found(one) is None and application.answers == 2


def test_a_value_has_the_time_at_which_it_was_read(application: Application) -> None:
    """What is held, as an application does not answer, is as old as it is."""
    one = indicator(application.url)
    found = scraper(one)
    begun_s = time.monotonic()
    look(found)
    first, ended_s = found(one), time.monotonic()
    application.answer = text("gone", 404)
    look(found)
    assert first is not None and begun_s < first.time_s < ended_s
    assert found(one) == first
    application.answer = text(METRICS)
    look(found)
    again = found(one)
    assert again is not None and again.time_s > ended_s


def _silence(application: Application) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        application.closing.wait(60)

    return answer


def _trickle(application: Application) -> Answer:
    """Return an answer of a byte now and then, so that no single read takes too long."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        while not application.closing.wait(0.02):
            handler.wfile.write(b"#")

    return answer


def _endless(application: Application) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        while not application.closing.is_set():
            handler.wfile.write(b"# " + b"x" * 65533 + b"\n")

    return answer


def _cut_short(_: Application) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"gets_total 1\n")
        handler.close_connection = True

    return answer


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (_silence, "no answer within"),
        (_trickle, "no answer within"),
        (_endless, f"more than {BODY_MAX} bytes"),
        (_cut_short, "closed"),
        (lambda _: text(gzip.compress(bytes(BODY_MAX + 1)), Content_Encoding="gzip"), "more than"),
        (lambda _: text("gone", 404), "404"),
        (lambda _: text("", 302, Location="http://127.0.0.1:1/"), "302"),
        (lambda _: text("broken", 500), "500"),
        (lambda _: text("<!doctype html><html><body>Hello</body></html>"), "html"),
        (lambda _: text('{"gets_total": 5}', Content_Type="application/json"), ""),
        (lambda _: text(b"gets_total \xff\xfe\n"), "utf-8"),
        (lambda _: text("gets_total many\n"), "many"),
        (lambda _: text("gets_total{op= 5\n"), ""),
        (lambda _: text('{"gets_total",\t="b"} 4\n'), "not in the text format"),
    ],
)
def test_a_failed_answer_is_counted_and_the_last_value_kept(
    application: Application,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    answer: Callable[[Application], Answer],
    why: str,
) -> None:
    one = indicator(application.url)
    found = scraper(one)
    look(found)
    application.answer = answer(application)
    # Only an endless answer must run into the time-out; others may take long on a busy machine.
    is_endless = answer in (_silence, _trickle)
    monkeypatch.setattr(scrape_module, "TIMEOUT_S", 0.5 if is_endless else 60.0)
    with caplog.at_level(logging.WARNING):
        look(found)
    assert (value(found(one)), found.failures_total) == (123, 1)
    line = caplog.messages[-1]
    assert line.startswith(f"{application.url}: cannot be scraped: ") and "\n" not in line
    assert why in line


def test_a_value_that_stays_missing_becomes_unknown(application: Application) -> None:
    one = indicator(application.url)
    found = scraper(one)
    look(found)
    application.answer = text("", 503)
    look(found, STALE_INTERVALS)
    assert value(found(one)) == 123
    look(found)
    assert found(one) is None and found.failures_total == STALE_INTERVALS + 1
    application.answer = text(METRICS)
    look(found)
    assert value(found(one)) == 123


def test_a_dead_application_delays_no_other(application: Application) -> None:
    gone = Application()
    gone.server.server_close()
    here, there = indicator(application.url), indicator(gone.url)
    bad = indicator("http://[::1/metrics")
    found = scraper(there, bad, here)
    look(found)
    assert [value(found(one)) for one in (here, there, bad)] == [123, None, None]
    assert found.failures_total == 2


def test_applications_beyond_the_bound_are_not_scraped(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrape_module, "URLS_MAX", 4)
    wanted = [indicator(f"{application.url}?{i}") for i in range(6)]
    found = scraper(*wanted)
    look(found)
    assert application.answers == 4
    assert [value(found(one)) for one in wanted] == [123, 123, 123, 123, None, None]


def test_names_that_are_no_series_find_nothing() -> None:
    assert series_value(METRICS, "gets total") is None
    assert series_value("", "gets_total") is None
    assert series_value("gets_total +Inf\n", "gets_total") is None
    with pytest.raises(ValueError, match="could not convert"):
        series_value("gets_total x\n", "gets_total")
