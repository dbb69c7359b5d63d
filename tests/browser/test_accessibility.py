# SPDX-License-Identifier: Apache-2.0
"""Run axe-core on every page, light and dark, wide and narrow: no violation."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from autopilot_processes import Autopilot
from playwright.sync_api import Page, expect

from .conftest import Open, begin, end

AXE = Path(__file__).resolve().parents[2] / "controller/dashboard/node_modules/axe-core/axe.min.js"
PAGES = {
    "fleet": "",
    "tenant": "#/tenant?node=n&cgroup=/t/kv",
    "changes": "#/changes",
    "what-if": "#/what-if?node=n",
    "consolidation": "#/consolidation",
}
OBJECTIVES = '[[tenant]]\ncgroup = "/t/kv"\nthroughput_ops = 1000000\n[[tenant]]\ncgroup = "*"\n'


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Autopilot]:
    found = begin(tmp_path_factory.mktemp("axe"), objectives=OBJECTIVES)
    found.until(found.history)
    yield found
    end(found)


def violations(page: Page) -> list[str]:
    """Return the violations that axe finds, one line each."""
    # axe is evaluated and not added as a script: the page's content security policy would block
    # that.
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html'][:120]}: {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_no_page_violates_axe(shown: Autopilot, open_page: Open, name: str, scheme: str) -> None:
    page = open_page(shown.address, PAGES[name], scheme)
    expect(page.locator("header .state.live")).to_be_visible()
    expect(page.locator("main table tbody tr").first).to_be_visible()
    assert violations(page) == []
    if name == "changes":
        opens = page.get_by_role("button", name="details: ").last
        opens.click()
        expect(opens).to_have_attribute("aria-expanded", "true")
        expect(page.get_by_text("Why:").first).to_be_visible()
        assert violations(page) == []
        page.get_by_role("button", name="Pin what ").first.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert violations(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_no_page_on_a_phone_violates_axe(shown: Autopilot, open_page: Open, name: str) -> None:
    page = open_page(shown.address, PAGES[name], width=390)
    expect(page.locator("header .state.live")).to_be_visible()
    expect(page.locator("main table tbody tr").first).to_be_visible()
    assert violations(page) == []


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Autopilot]:
    """Start a controller to which no agent ever connects."""
    found = begin(tmp_path_factory.mktemp("alone"), agent=False)
    yield found
    end(found)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Autopilot]:
    """Start a controller and an agent, then kill the agent."""
    found = begin(tmp_path_factory.mktemp("left"), objectives=OBJECTIVES)
    found.kill("agent")
    found.until(lambda: all(row["stale"] for row in found.tenants().values()))
    yield found
    end(found)


@pytest.mark.parametrize("name", [name for name in PAGES if name != "tenant"])
def test_an_empty_page_says_what_to_do_next(alone: Autopilot, open_page: Open, name: str) -> None:
    page = open_page(alone.address, PAGES[name])
    expect(page.locator(".empty").first).to_be_visible()
    assert violations(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_stale_node_is_shown_on_every_page_without_violations(
    left: Autopilot, open_page: Open, name: str
) -> None:
    page = open_page(left.address, PAGES[name])
    expect(page.locator("header .state.live")).to_be_visible()
    if name in ("fleet", "tenant"):
        expect(page.locator(".loud", has_text="stale").first).to_be_visible()
    page.wait_for_timeout(500)
    assert violations(page) == []


def test_a_violation_is_found(shown: Autopilot, open_page: Open) -> None:
    page = open_page(shown.address)
    expect(page.locator("header .state.live")).to_be_visible()
    page.evaluate("document.querySelector('#search').labels[0].remove()")
    page.evaluate("document.querySelector('#search').removeAttribute('placeholder')")
    assert any(one.startswith("label:") for one in violations(page))
