# SPDX-License-Identifier: Apache-2.0
"""Everything is in sight with long paths, narrow screens and long reasons."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from autopilot_processes import KV, LOOP, Autopilot
from playwright.sync_api import Page, expect

from .conftest import Open, begin, end
from .test_change_log import change

POD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod8f1c0e6a_47d2_4a55.slice"
FIRST, OTHER = (f"{POD}/cri-containerd-{one * 40}.scope" for one in "ab")
OBJECTIVES = f'[[tenant]]\ncgroup = "{FIRST}"\nthroughput_ops = 123456\n[[tenant]]\ncgroup = "*"\n'
TENANTS = KV.replace("/t/kv", FIRST) + LOOP.replace("/t/loop", OTHER)
PAGES = {
    "fleet": "",
    "tenant": f"#/tenant?node=n&cgroup={FIRST}",
    "changes": "#/changes",
    "what-if": "#/what-if?node=n",
    "consolidation": "#/consolidation",
}
WHY = "miss ratio 0.5000 -> 0.2500, 13,130 -> 22,130 ops/s; " * 4


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Autopilot]:
    """Start a set-up with two containers of one pod as tenants."""
    found = begin(tmp_path_factory.mktemp("layout"), objectives=OBJECTIVES, tenants=TENANTS)
    found.until(found.tenants)
    yield found
    end(found)


def _open(shared: Autopilot, open_page: Open, name: str, width: int) -> Page:
    page = open_page(shared.address, width=width)
    rows = json.dumps([change(at, cgroup=FIRST, why=WHY) for at in (3, 2, 1)])
    page.route("**/api/v1/changes?*", lambda route: route.fulfill(
        status=200, content_type="application/json", body=rows
    ))  # fmt: skip
    page.evaluate(f"location.hash = '{PAGES[name]}'")
    expect(page.locator("main table tbody tr td").first).to_be_visible()
    page.wait_for_timeout(500)
    return page


def _wider(page: Page, of: str) -> Any:
    """Return the elements whose content is wider than they are, and by how many pixels."""
    return page.evaluate(
        "(of) => [...document.querySelectorAll(of)]"
        ".filter((one) => one.scrollWidth > one.clientWidth)"
        ".map((one) => [one.ariaLabel ?? one.tagName, one.scrollWidth - one.clientWidth])",
        of,
    )


@pytest.mark.parametrize("width", [320, 390])
@pytest.mark.parametrize("name", PAGES)
def test_no_document_is_wider_than_a_narrow_screen(
    shared: Autopilot, open_page: Open, name: str, width: int
) -> None:
    page = _open(shared, open_page, name, width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # Nothing extends beyond the screen either: tables are cards, which do not scroll sideways.
    assert _wider(page, "header.top, main, dl, .scroll, table, section, header") == []
    expect(page.get_by_role("link", name="Consolidation", exact=True)).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("name", PAGES)
def test_no_table_is_wider_than_a_common_screen_for_long_paths(
    shared: Autopilot, open_page: Open, name: str
) -> None:
    page = _open(shared, open_page, name, 1440)
    assert _wider(page, ".scroll") == []
    if name == "tenant":
        return
    # The end of a path distinguishes the containers of a pod, and the whole path is readable.
    for cgroup in (FIRST,) if name == "changes" else (FIRST, OTHER):
        shown = page.locator(f"th [title='{cgroup}']").first
        expect(shown).to_be_visible()
        assert shown.inner_text() == cgroup
        end = "(one) => { const text = document.createRange(); const node = one.firstChild"
        end += ".firstChild; text.setStart(node, node.length - 8); text.setEnd(node, node.length);"
        end += " const [a, b] = [text, one].map((it) => it.getBoundingClientRect());"
        end += " return a.left >= b.left && a.right <= b.right + 1 }"
        assert shown.evaluate(end)


def test_long_notes_of_a_consolidation_wrap(shared: Autopilot, open_page: Open) -> None:
    page = _open(shared, open_page, "consolidation", 1440)
    notes = page.locator("td[data-label=Note]")
    expect(notes.first).to_be_visible()
    notes.evaluate_all("(all) => all.forEach((one) => (one.textContent = 'needs '.repeat(40)))")
    assert _wider(page, ".scroll") == []


@pytest.mark.parametrize("name", ["changes", "tenant"])
def test_why_is_the_widest_column_of_the_log(shared: Autopilot, open_page: Open, name: str) -> None:
    page = _open(shared, open_page, name, 1440)
    region = page.get_by_role("region", name="Table of changes")
    widths = region.locator("thead th").evaluate_all(
        "(all) => Object.fromEntries(all.map((one) => [one.innerText, one.offsetWidth]))"
    )
    assert widths["Why"] == max(widths.values())
    assert widths["Why"] >= 250
