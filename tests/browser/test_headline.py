# SPDX-License-Identifier: Apache-2.0
"""What the fleet page answers first: is it helping, who pays, are the SLOs safe, what changed."""

import re
from typing import Any

import pytest
from autopilot_processes import Autopilot
from playwright.sync_api import Locator, Page, expect

from .conftest import Open
from .test_change_log import change

TIMES = "\N{MULTIPLICATION SIGN}"


def _with(page: Page, path: str, found: Any) -> None:
    page.route(f"**/api/v1/{path}", lambda route: route.fulfill(json=found))
    page.reload()


def _panel(page: Page, name: str) -> Locator:
    return page.locator(f"section[aria-labelledby={name}-title]")


@pytest.mark.parametrize(
    ("gain", "pay", "unknown", "said"),
    [
        (1, 0, 0, "none is slower than the default"),
        (1, 0, 2, "of 2 that are known"),
        (0, 0, 4, "not known yet"),
        (1, 2, 1, "slower than the default"),
    ],
)
def test_who_pays_counts_only_known_tenants(
    shared: Autopilot, open_page: Open, gain: int, pay: int, unknown: int, said: str
) -> None:
    page, found = open_page(shared.address), shared.get("/comparison")
    known = gain + pay + (1 if unknown < 4 else 0)
    found["fleet"] |= {
        "tenants": known + unknown, "gain": gain, "pay": pay, "unknown": unknown,
        "same": known - gain - pay,
    }  # fmt: skip
    _with(page, "comparison", found)
    pays = _panel(page, "helping").locator("dl > div").filter(has_text="Tenants that pay")
    expect(pays).to_contain_text(said)
    expect(pays).to_contain_text(str(pay))


def test_an_slo_at_risk_is_loud_with_its_burn(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address)
    span = {"span": "24h", "seconds": 86400, "windows": 100, "met": 0, "attainment": 0.0}
    budget = {
        "node": "n", "cgroup": "/t/kv", "kind": "throughput_ops", "target": 5000.0, "goal": 0.98,
        "since_s": 0.0, "measured": 100.0, "met": False, "state": "exhausted", "why": "because",
        "spans": [span | {"budget_left": -49.0}], "burn_short_s": 300, "burn_short": 50.0,
        "burn_long_s": 3600, "burn_long": 12.0,
    }  # fmt: skip
    _with(page, "budgets", [budget])
    safe = _panel(page, "safe")
    expect(safe.locator(".loud").first).to_have_text("1 at risk")
    expect(safe).to_contain_text("0 of 1 safe")
    row = safe.locator("tbody tr")
    expect(row).to_contain_text("budget used up")
    left = row.locator("td[data-label='Left of 24h']")
    expect(left).to_have_text("0%")
    expect(left).to_have_attribute("title", re.compile("the budget was used 50 times"))
    expect(row.locator(".bad").filter(has_text=f"50{TIMES}")).to_be_visible()
    expect(row.locator(".bad").filter(has_text=f"12{TIMES}")).to_be_visible()


def test_the_fleet_page_says_what_changed_and_links_to_all(
    shared: Autopilot, open_page: Open
) -> None:
    page = open_page(shared.address)
    rows = [change(at, cgroup="/t/kv", why="because") for at in (3, 2, 1)]
    page.route("**/api/v1/changes?*", lambda route: route.fulfill(json=rows))
    page.reload()
    changed = _panel(page, "changed")
    expect(changed.locator("tbody tr").first).to_contain_text("because")
    expect(changed.get_by_role("link", name="All changes")).to_be_visible()
