# SPDX-License-Identifier: Apache-2.0
"""A scraped application is the one on the tenant's node, not on the controller's host."""

import logging
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat
from experiments.control_loop.world import World
from test_fleet_scrape import Application, application, look, value  # noqa: F401

from cachepilot.domain.objectives.file import parse_objectives
from cachepilot.domain.objectives.indicator_url import check_url, is_loopback
from cachepilot.domain.objectives.objective import Counter, Indicator, Objective, Objectives
from cachepilot.errors import InputError
from cachepilot.fleet import scrape as scrape_module
from cachepilot.fleet.peer import address_of
from cachepilot.fleet.scrape import STALE_INTERVALS, Scraper
from cachepilot.sense.node_scrape import NodeScrape, Scrape, is_own

FAR = "192.0.2.7"
"""An address for documentation (RFC 5737), which no host has."""
SIZES = (32 * MIB, 64 * MIB, 128 * MIB)


def counter(url: str) -> Indicator:
    return Indicator(Counter.PROMETHEUS, url, "gets_total")


def world(path: Path, url: str, asked: list[str], address: str) -> World:
    """Return a world whose node connects from `address`. `asked` collects the scraped URLs."""

    def scraped(indicator: Indicator) -> Scrape:
        asked.append(indicator.url)
        return Scrape(here.plant.time_s * 100, here.plant.time_s)

    tenant = PlantTenant("/web", {"default": flat(0.5)}, 64 * MIB)
    here = World(path, Plant([tenant], 64 * MIB, SIZES), (Objective("*", indicator=counter(url)),))
    here.loop._scraped._scraped = scraped
    here.loop.begin(here.plant.hello(), address)
    return here


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1", "[::1]", "0.0.0.0"])
def test_the_loopback_of_the_controller_is_not_that_of_another_node(
    tmp_path: Path, host: str
) -> None:
    asked: list[str] = []
    here = world(tmp_path, f"http://{host}:9100/metrics", asked, FAR)
    here.run(3)
    report = here.loop.report
    assert report is not None and asked == []
    tenant = report.collected.seen["/web"].tenant
    assert tenant.indicators.throughput_ops == 0 and not tenant.trust.trusted
    assert f"{host}:9100/metrics is the controller's own host" in tenant.trust.reason
    assert f"the node is at {FAR} (allowed: {{node}} as the host" in tenant.trust.reason


def test_the_loopback_is_that_of_a_node_on_the_same_host(tmp_path: Path) -> None:
    asked: list[str] = []
    here = world(tmp_path, "http://localhost:9100/metrics", asked, "127.0.0.1")
    here.run(3)
    report = here.loop.report
    assert report is not None and set(asked) == {"http://localhost:9100/metrics"}
    assert report.collected.seen["/web"].tenant.indicators.throughput_ops == pytest.approx(100)


@pytest.mark.parametrize(
    ("address", "url"),
    [(FAR, "http://192.0.2.7:9100/m"), ("2001:db8::7", "http://[2001:db8::7]:9100/m")],
)
def test_a_node_in_a_url_is_where_its_agent_connects_from(
    tmp_path: Path, address: str, url: str
) -> None:
    asked: list[str] = []
    here = world(tmp_path, "http://{node}:9100/m", asked, address)
    here.run(2)
    assert set(asked) == {url}


def test_the_application_of_a_node_is_scraped_while_it_is_looked_up(
    application: Application,  # noqa: F811
) -> None:
    template = counter(application.url.replace("127.0.0.1", "{node}"))
    stated = [Objectives((Objective("*", indicator=template),))]
    scraper = Scraper(lambda: stated[0], 1.0)
    node = NodeScrape(scraper)
    look(scraper)
    assert application.answers == 0 and node(template) is None
    look(scraper)
    assert value(node(template)) == 123
    look(scraper, STALE_INTERVALS + 5)
    assert application.answers == STALE_INTERVALS + 1
    assert node(template) is None
    stated[0] = Objectives()
    look(scraper)
    assert application.answers == STALE_INTERVALS + 1


def test_urls_beyond_the_bound_are_counted_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scrape_module, "URLS_MAX", 0)
    caplog.set_level(logging.WARNING)
    asked = counter("http://127.0.0.1:1/m")
    scraper = Scraper(lambda: Objectives((Objective("*", indicator=asked),)), 1.0)
    look(scraper, 3)
    assert scraper.failures_total == 3
    assert [one.message for one in caplog.records] == ["1 URLs are not scraped (allowed: 0 in all)"]


@pytest.mark.parametrize(
    "url",
    ["ftp://host/m", "http://", "http:///m", "http://host:99999/m", "http://[::1/m",
     "http://a{node}:1/m", "http://host/{node}", "http://{node}/{node}", "http://{host}:1/m"],
)  # fmt: skip
def test_a_url_that_cannot_be_scraped_is_refused_when_it_is_stated(url: str) -> None:
    text = f'[[tenant]]\ncgroup = "/a"\nindicator = {{ prometheus = "{url}", metric = "m" }}\n'
    with pytest.raises(InputError, match=r"^here: tenant 1: indicator: .*allowed: http://HOST"):
        parse_objectives(text, "here")


def test_urls_of_hosts_and_of_nodes_are_allowed() -> None:
    for url in ("http://{node}:9100/m", "https://{node}/m?a=1", "http://10.0.0.1:1/m"):
        assert check_url(url) == url


def test_loopback_addresses_are_recognised() -> None:
    loopback = ("localhost", "a.localhost", "localhost.", "127.0.0.1", "127.9.9.9", "127.1", "::1",
                "0.0.0.0", "::", "::ffff:127.0.0.1")  # fmt: skip
    assert all(is_loopback(host) for host in loopback)
    others = ("localhost.example", "10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", "{node}", "web")
    assert not any(is_loopback(host) for host in others)
    assert is_own("127.0.0.1") and not is_own(FAR)


def test_the_address_of_a_peer_as_grpc_names_it() -> None:
    told = {
        "ipv4:10.0.0.3:4711": "10.0.0.3",
        "ipv6:[::1]:4711": "::1",
        "ipv6:%5B2001:db8::7%5D:4711": "2001:db8::7",
        "ipv6:[::ffff:10.0.0.3]:4711": "10.0.0.3",
        "unix:/run/cachepilot.sock": "127.0.0.1",
    }
    assert {peer: address_of(peer) for peer in told} == told
