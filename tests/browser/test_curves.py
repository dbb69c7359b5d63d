# SPDX-License-Identifier: Apache-2.0
"""The chart of miss ratio curves: which of many lines stand out, and what the legend says."""

import re
import tomllib
from pathlib import Path
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
STYLES = ("stroke", "stroke-dasharray", "stroke-width")


def _miss(policy: str, size: int) -> float:
    """Return a miss ratio that is far enough from those of the other policies."""
    return 0.9 - 0.09 * size + 0.004 * POLICIES.index(policy)


def _detail(shared: Autopilot) -> dict[str, Any]:
    """Return the tenant as the controller shows it, with the separate curves of 17 policies."""
    found: dict[str, Any] = shared.get("/tenants/detail", node="n", cgroup="/t/kv")
    rows = [[_miss(name, size) for size in range(len(SIZES))] for name in POLICIES]
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
    """Return the colour, dashes and width of a line, as its key in the legend shows them."""
    line = entry.locator(".key line")
    return " ".join(_style(line, name) for name in STYLES)


def _style(line: Locator, name: str) -> str:
    return str(line.evaluate("(one, name) => getComputedStyle(one).getPropertyValue(name)", name))


def _color_and_width(look: str) -> str:
    return re.sub(r"(\S+\)).* (\S+)$", r"\1 \2", look)


def test_the_policy_in_force_the_best_and_the_default_stand_out(
    shared: Autopilot, open_page: Open
) -> None:
    page = _show(shared, open_page)
    told = [_look(_entry(page, name)) for name in (HELD, BEST, "default")]
    others = {
        _color_and_width(_look(_entry(page, name)))
        for name in POLICIES
        if name.startswith("policy")
    }
    assert (
        len(set(told)) == 3 and len(others) == 1 and others.isdisjoint(map(_color_and_width, told))
    )
    legend = page.locator("section[aria-labelledby=curves-title] figcaption .line")
    first = legend.evaluate_all("(all) => all.slice(0, 3).map((one) => one.innerText)")
    assert [one.split()[0] for one in first] == [HELD, BEST, "default"]
    key = page.locator(".key").first.bounding_box()
    assert key is not None and key["width"] >= 24


def test_the_legend_highlights_any_line(shared: Autopilot, open_page: Open) -> None:
    page = _show(shared, open_page)
    entry, muted = _entry(page, "policy03"), _look(_entry(page, "policy04"))
    plain = _look(entry)
    assert _color_and_width(plain) == _color_and_width(muted)
    line = entry.locator(".key line")
    entry.focus()
    expect(line).to_have_css("stroke-width", "2px")
    pointed = _look(entry)
    styles = {name: _style(line, name) for name in STYLES}
    entry.blur()
    expect(line).to_have_css("stroke-width", "1px")
    entry.hover()
    # Wait for each style: a page that is redrawn under the pointer shows it a moment later.
    for name, value in styles.items():
        expect(line).to_have_css(name, value)
    page.mouse.move(0, 0)
    expect(line).to_have_css("stroke-width", "1px")
    entry.focus()
    expect(line).to_have_css("stroke-width", "2px")
    entry.press("Enter")
    expect(entry).to_have_attribute("aria-pressed", "true")
    _entry(page, "policy04").focus()
    assert _look(entry) == pointed
    entry.press("Enter")
    _entry(page, "policy04").focus()
    assert _look(entry) == plain


def test_the_legend_reads_at_the_present_limit(shared: Autopilot, open_page: Open) -> None:
    page = _show(shared, open_page)
    at = f"{_miss(HELD, SIZES.index(64 * MIB)):.1%}"
    expect(_entry(page, HELD)).to_contain_text(at)
    chart = page.get_by_role("img", name=re.compile("^Miss ratio by limit and policy"))
    label = chart.get_attribute("aria-label") or ""
    assert "at 64 MiB" in label and f"{HELD} {at}" in label and " 0.0%" not in label


def test_curves_that_coincide_are_one_line_that_names_them_all(
    shared: Autopilot, open_page: Open
) -> None:
    page, found = open_page(shared.address), _detail(shared)
    rows = found["curves"]["miss_ratio"]
    # Lines a third of a pixel apart look like one; lines a tenth of the chart apart do not.
    rows[POLICIES.index("policy05")] = [one + 0.001 for one in rows[POLICIES.index(HELD)]]
    rows[POLICIES.index("policy06")] = rows[POLICIES.index("policy07")]
    page.route("**/api/v1/tenants/detail?*", lambda route: route.fulfill(json=found))
    page.evaluate(f"location.hash = '{TENANT}'")
    expect(_entry(page, f"{HELD} (in force) = policy05")).to_have_count(1)
    expect(_entry(page, "policy06 = policy07")).to_have_count(1)
    expect(page.locator("section[aria-labelledby=curves-title] .line")).to_have_count(15)


def _candidates() -> list[str]:
    """Return the policies that the autopilot may choose, according to their manifests."""
    folder = Path(__file__).resolve().parents[2] / "bpf" / "policies"
    found = {
        one.parent.name: tomllib.loads(one.read_text()) for one in folder.glob("*/policy.toml")
    }
    return sorted(name for name, one in found.items() if one.get("autopilot"))


def test_candidates_differ_without_their_colour(shared: Autopilot, open_page: Open) -> None:
    page, found = open_page(shared.address), _detail(shared)
    names = ["default", *_candidates()]
    curves = found["curves"]
    curves["policies"] = names
    curves["miss_ratio"] = [
        [0.9 - 0.09 * size + 0.01 * at for size in range(len(SIZES))] for at in range(len(names))
    ]
    curves["error_bar"] = [[0.01] * len(SIZES)] * len(names)
    page.route("**/api/v1/tenants/detail?*", lambda route: route.fulfill(json=found))
    page.evaluate(f"location.hash = '{TENANT}'")
    expect(page.get_by_text("(in force)")).to_be_visible()
    dashes = {
        _entry(page, name).locator(".key line").get_attribute("stroke-dasharray") for name in names
    }
    assert len(names) > 3 and len(dashes) == len(names)


def test_a_policy_has_one_colour_on_the_whole_page(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address, TENANT)
    strip = page.get_by_role("list", name="Policies over time").locator("li").last
    expect(strip).to_be_visible()
    # Read everything at once: a moment later the policy may be another one.
    read = "(one) => { const line = one.querySelector('line'); return [one.innerText, "
    read += "getComputedStyle(line).stroke, line.getAttribute('stroke-dasharray')] }"
    text, shown, dashes = strip.evaluate(read)
    policy = text.split()[0]
    entry = page.locator("section[aria-labelledby=curves-title] .line").filter(
        has_text=re.compile(rf"^\s*{policy}\b")
    )
    expect(entry).to_be_visible()
    entry.evaluate("(one) => one.focus()")
    expect(entry.locator(".key line")).to_have_css("stroke", shown)
    expect(entry.locator(".key line")).to_have_attribute("stroke-dasharray", dashes)
