# SPDX-License-Identifier: Apache-2.0
"""The chart of miss ratio curves: which of many lines stand out, and what the legend says."""

import re
from typing import Any

from autopilot_processes import Autopilot
from playwright.sync_api import Locator, Page, expect

from .conftest import Open

POLICIES = sorted(["default", "s3fifo", "lirs", *(f"policy{at:02}" for at in range(14))])
HELD, BEST = "s3fifo", "lirs"
MIB = 1 << 20
SIZES = [MIB << at for at in range(11)]
LIMIT = 70 * MIB
TENANT = "#/tenant?node=n&cgroup=/t/kv"


def _detail(shared: Autopilot) -> dict[str, Any]:
    """The tenant as it is, with curves of 17 policies that all fall to nothing."""
    found: dict[str, Any] = shared.get("/tenants/detail", node="n", cgroup="/t/kv")
    rows = [[0.9 - 0.09 * size for size in range(len(SIZES))] for _ in POLICIES]
    found["tenant"] |= {"policy": HELD, "limit_bytes": LIMIT, "hit_ratio": 0.6}
    found["best_policy"] = BEST
    found["curves"] = {
        "policies": POLICIES, "sizes_bytes": SIZES, "miss_ratio": rows,
        "error_bar": [[0.01] * len(SIZES)] * len(rows), "sampled": 1000, "rate": 0.1,
    }  # fmt: skip
    return found


def _show(shared: Autopilot, open_page: Open) -> Page:
    page, found = open_page(shared.address), _detail(shared)
    page.route("**/api/v1/tenants/detail?*", lambda route: route.fulfill(json=found))
    page.evaluate(f"location.hash = '{TENANT}'")
    expect(page.get_by_text("(in force)")).to_be_visible()
    return page


def _entry(page: Page, policy: str) -> Locator:
    return page.locator("section[aria-labelledby=curves-title] .line").filter(has_text=policy)


def _look(entry: Locator) -> str:
    """Colour, dash and width of a line, as its key in the legend shows them."""
    look = "(one) => { const s = getComputedStyle(one); return [s.borderTopColor, "
    look += "s.borderTopStyle, s.borderTopWidth].join(' ') }"
    return str(entry.locator(".key").evaluate(look))


def test_what_holds_what_is_best_and_the_default_stand_out(
    shared: Autopilot, open_page: Open
) -> None:
    page = _show(shared, open_page)
    told = [_look(_entry(page, name)) for name in (HELD, BEST, "default")]
    others = {_look(_entry(page, name)) for name in POLICIES if name.startswith("policy")}
    assert len(set(told)) == 3 and len(others) == 1 and others.isdisjoint(told)
    legend = page.locator("section[aria-labelledby=curves-title] figcaption .line")
    first = legend.evaluate_all("(all) => all.slice(0, 3).map((one) => one.innerText)")
    assert [one.split()[0] for one in first] == [HELD, BEST, "default"]
    key = page.locator(".key").first.bounding_box()
    assert key is not None and key["width"] >= 24


def test_any_line_is_reached_by_the_legend(shared: Autopilot, open_page: Open) -> None:
    page = _show(shared, open_page)
    entry, muted = _entry(page, "policy03"), _look(_entry(page, "policy04"))
    assert _look(entry) == muted
    entry.hover()
    expect(entry.locator(".key")).to_have_css("border-top-width", "2px")
    pointed = _look(entry)
    page.mouse.move(0, 0)
    expect(entry.locator(".key")).to_have_css("border-top-width", "1px")
    entry.focus()
    expect(entry.locator(".key")).to_have_css("border-top-width", "2px")
    assert _look(entry) == pointed
    entry.press("Enter")
    expect(entry).to_have_attribute("aria-pressed", "true")
    _entry(page, "policy04").focus()
    assert _look(entry) == pointed
    entry.press("Enter")
    _entry(page, "policy04").focus()
    assert _look(entry) == muted


def test_the_legend_reads_at_the_present_limit(shared: Autopilot, open_page: Open) -> None:
    page = _show(shared, open_page)
    at = f"{0.9 - 0.09 * SIZES.index(64 * MIB):.1%}"
    expect(_entry(page, HELD)).to_contain_text(at)
    chart = page.get_by_role("img", name=re.compile("^Miss ratio by limit and policy"))
    label = chart.get_attribute("aria-label") or ""
    assert "at 64 MiB" in label and f"{HELD} {at}" in label and " 0.0%" not in label


def test_a_policy_has_one_colour_on_the_whole_page(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address, TENANT)
    strip = page.get_by_role("list", name="Policies over time").locator("li").last
    expect(strip).to_be_visible()
    policy = strip.inner_text().split()[0]
    shown = strip.evaluate("(one) => getComputedStyle(one).borderBottomColor")
    entry = page.locator("section[aria-labelledby=curves-title] .line").filter(
        has_text=re.compile(rf"^\s*{policy}\b")
    )
    expect(entry).to_be_visible()
    entry.evaluate("(one) => one.focus()")
    expect(entry.locator(".key")).to_have_css("border-top-color", shown)
