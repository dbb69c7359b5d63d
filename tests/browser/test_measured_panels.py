# SPDX-License-Identifier: Apache-2.0
"""Panels show what a real controller measured: each answer is compared with its HTTP interface."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from autopilot_processes import KV, Autopilot
from playwright.sync_api import Locator, Page, expect

from .conftest import Open, begin, end
from .test_change_log import change

KV_PAGE = "#/tenant?node=n&cgroup=/t/kv"
FLOOD_PAGE = "#/tenant?node=n&cgroup=/t/flood"
MISSED_OPS = 1_000_000
OBJECTIVES = f"""
[[tenant]]
cgroup = "/t/kv"
throughput_ops = {MISSED_OPS}
hit_ratio = 0.01
[[tenant]]
cgroup = "*"
"""
FLOOD = """
[[tenant]]
cgroup = "/t/flood"
concurrency = 64
accesses_per_op = 16
service_us = 10.0
limit_bytes = 16777216
phase = [{ source = { kind = "loop", pages = 60000 } }]
"""
"""A tenant that reads in a loop much more than it may hold, as fast as the device can."""
TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Autopilot]:
    """Start a set-up with a missed SLO, a met one, and a tenant that saturates the device."""
    found = begin(tmp_path_factory.mktemp("panels"), objectives=OBJECTIVES, tenants=KV + FLOOD)
    # In a loop the least recently used page is the next one to be read: nothing hits.
    pin = {"cgroup": "/t/flood", "policy": "lru", "limit_bytes": 16 << 20}
    found.http.post("/pins", json=pin).raise_for_status()
    found.until(lambda: found.get("/changes", cgroup="/t/flood"))
    found.until(lambda: len(found.get("/budgets") or ()) == 2)
    yield found
    end(found)


def _series(pilot: Autopilot) -> dict[str, Any]:
    """Return what a chart of the last five minutes shows now."""
    asked = {"node": "n", "cgroup": "/t/flood", "since": time.time() - 300, "until": time.time()}
    return dict(pilot.get("/tenants/series", **asked) or {"time_s": []})


def _panel(page: Page, name: str) -> Locator:
    return page.locator(f"section[aria-labelledby={name}-title]")


def _answered(page: Page, path: str) -> Any:
    """Show the fleet, and return what the controller answered to the request for `path`."""
    expect(page.get_by_role("heading", name="Consolidation")).to_be_visible()
    with page.expect_response(re.compile(rf"/api/v1/{path}(\?|$)")) as answer:
        page.evaluate("location.hash = ''")
    return answer.value.json()


def _figure(panel: Locator, name: str) -> Locator:
    return panel.locator("dl > div").filter(has=panel.page.get_by_text(name, exact=True))


def test_whether_it_helps_is_what_the_controller_answers(
    measured: Autopilot, open_page: Open
) -> None:
    page = open_page(measured.address, "#/consolidation")
    fleet = _answered(page, "comparison")["fleet"]
    panel = _panel(page, "helping")
    expect(_figure(panel, "Tenants that gain").locator("dd").first).to_contain_text(
        str(fleet["gain"])
    )
    expect(_figure(panel, "Tenants that pay").locator("dd").first).to_contain_text(
        str(fleet["pay"])
    )
    for name in ("Against the kernel's default", "Against before the autopilot"):
        expect(_figure(panel, name)).to_be_visible()


def test_the_budgets_of_the_fleet_are_those_of_the_controller(
    measured: Autopilot, open_page: Open
) -> None:
    measured.until(lambda: _states(measured)["throughput_ops"] == "exhausted")
    page = open_page(measured.address)
    panel = _panel(page, "safe")
    expect(panel.locator(".loud").first).to_have_text("1 at risk")
    expect(panel.locator("tbody tr")).to_have_count(1)
    expect(panel.locator("tbody tr")).to_contain_text("/t/kv")
    expect(panel.locator("tbody tr")).to_contain_text("budget used up")
    burns = panel.locator("tbody tr .bad").filter(has_text=TIMES)
    expect(burns.first).to_have_text(re.compile(rf"\d{TIMES}"))
    panel.get_by_role("button", name="Show all SLOs").click()
    expect(panel.locator("tbody tr")).to_have_count(2)
    own = open_page(measured.address, KV_PAGE)
    expect(_panel(own, "safe").locator("tbody tr")).to_have_count(2)


def _states(pilot: Autopilot) -> dict[str, str]:
    return {one["kind"]: one["state"] for one in pilot.get("/budgets") or ()}


def test_what_changed_is_the_log_of_the_controller(measured: Autopilot, open_page: Open) -> None:
    page = open_page(measured.address, "#/consolidation")
    rows = _answered(page, "changes")
    panel = _panel(page, "changed")
    details = panel.get_by_role("button", name="details: ")
    expect(details.last).to_have_attribute("data-open", str(rows[-1]["id"]))
    expect(panel).to_contain_text(re.compile(r"\d+ changes, the newest first"))


def test_the_saturated_device_is_loud(measured: Autopilot, open_page: Open) -> None:
    measured.until(lambda: _device_share(measured) > 0.9)
    page = open_page(measured.address)
    expect(_panel(page, "attention").locator("li").filter(has_text="saturated")).to_contain_text(
        re.compile(r"the device of n serves\s+\d+% of what it can")
    )
    expect(_panel(page, "nodes").locator(".loud")).to_have_text(re.compile(r"saturated, \d+%"))


def _device_share(pilot: Autopilot) -> float:
    node = pilot.node()
    return float((node.get("device_iops") or 0.0) / (node.get("device_capacity_iops") or 1e9))


def test_a_hit_ratio_near_zero_is_loud(measured: Autopilot, open_page: Open) -> None:
    measured.until(lambda: measured.tenants()["/t/flood"]["hit_ratio"] == 0.0)
    page = open_page(measured.address)
    row = _panel(page, "tenants").locator("tr").filter(has_text="/t/flood")
    expect(row.locator("td[data-label='Hit ratio'] .loud")).to_be_visible()
    own = open_page(measured.address, FLOOD_PAGE)
    expect(own.get_by_text("the page cache does not help")).to_be_visible()


def _chart(page: Page, title: str) -> Locator:
    return page.locator("figure").filter(has=page.get_by_role("img", name=f"{title} over time"))


def test_targets_of_slos_are_lines_of_their_charts(measured: Autopilot, open_page: Open) -> None:
    page = open_page(measured.address, KV_PAGE)
    for title, target in (("Throughput", f"{MISSED_OPS:,}"), ("Miss ratio", "99.0%")):
        line = _chart(page, title).locator("figcaption .line").filter(has_text="SLO")
        expect(line.locator("b")).to_have_text(target)
    expect(_chart(page, "Memory").locator("figcaption .line").filter(has_text="SLO")).to_have_count(
        0
    )


def test_changes_of_a_tenant_are_marks_of_its_charts(measured: Autopilot, open_page: Open) -> None:
    """Move the pointer over measured points until the legend names a change among them.

    Later points would be averaged with these, so the page gets one answer of the controller only.
    """
    measured.until(lambda: len(_series(measured)["time_s"]) >= 3)
    series = _series(measured)
    row = change(1, cgroup="/t/flood", begun_s=series["time_s"][1])
    page = open_page(measured.address)
    page.route("**/api/v1/changes?*", lambda route: route.fulfill(json=[row]))
    page.route("**/api/v1/tenants/series?*", lambda route: route.fulfill(json=series))
    page.evaluate(f"location.hash = '{FLOOD_PAGE}'")
    chart = _chart(page, "Throughput")
    plot = chart.locator(".u-over")
    width, height = plot.evaluate("(one) => [one.clientWidth, one.clientHeight]")
    for share in range(1, 100):
        plot.hover(position={"x": width * share / 100, "y": height / 2})
        # The legend follows the pointer in the next frame.
        page.wait_for_timeout(50)
        if chart.locator("figcaption .mark").count():
            break
    expect(chart.locator("figcaption .mark").first).to_contain_text(
        "lfu → mru, confirmed, by autopilot"
    )


def test_what_is_measured_and_predicted_now_is_shown_once(tmp_path: Path, open_page: Open) -> None:
    """A tenant that keeps the default at its first memory: nothing else is predicted of it."""
    observed = '[[tenant]]\ncgroup = "*"\nmode = "observe"\n'
    pilot = begin(tmp_path, objectives=observed)
    try:
        pilot.until(lambda: _comparison(pilot)["versus_default"])
        page = open_page(pilot.address, KV_PAGE)
        helped = _panel(page, "helped")
        expect(helped).to_contain_text("its present setting")
        expect(helped).to_contain_text(re.compile("throughput, mean of the last [\\d.]+ s"))
        expect(helped).not_to_contain_text("Default, predicted")
        expect(helped).not_to_contain_text("last minute")
        expect(helped).not_to_contain_text("are measured")
        for name in ("Throughput, measured", "Throughput, predicted"):
            expect(page.locator("main").get_by_text(name, exact=True)).to_have_count(1)
        filling = _comparison(pilot) | {
            "verdict": "unknown", "default": None, "versus_default": None,
            "why": "not known: its page cache was still filling",
        }  # fmt: skip
        page.route(
            "**/api/v1/comparison/tenants?*",
            lambda route: route.fulfill(body=json.dumps([filling])),
        )
        page.reload()
        expect(helped).to_contain_text("its page cache was still filling")
    finally:
        end(pilot)


def _comparison(pilot: Autopilot) -> dict[str, Any]:
    found = pilot.get("/comparison/tenants", node="n", cgroup="/t/kv")
    return found[0] if found else {"versus_default": None}
