# SPDX-License-Identifier: Apache-2.0
"""Take pictures of every page. With CACHEPILOT_SCREENSHOTS=FOLDER they are kept in that folder."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from autopilot_processes import Autopilot
from PIL import Image, ImageStat
from playwright.sync_api import Page, expect

from .conftest import FAST, Open, begin, end

ROOT = Path(__file__).resolve().parents[2]
SIMULATION = (ROOT / "configs" / "simulation.toml").read_text("utf-8")
TENANTS = SIMULATION[SIMULATION.index("\n[[tenant]]") :]
OBJECTIVES = """
[[tenant]]
cgroup = "/tenants/kv"
throughput_ops = 6000
priority = 10

[[tenant]]
cgroup = "/tenants/reports"
hit_ratio = 0.5

[[tenant]]
cgroup = "*"
"""
KEPT = "CACHEPILOT_SCREENSHOTS"
PAGES = {
    "fleet": "",
    "tenant": "#/tenant?node=n&cgroup=/tenants/kv",
    "changes": "#/changes",
    "what-if": "#/what-if?node=n",
    "consolidation": "#/consolidation",
}
DARK = ("fleet", "tenant")
"""Pages of which pictures are kept in both themes."""
PICTURES = [*((name, "light") for name in PAGES), *((name, "dark") for name in DARK)]
PHONE_PX = 390
SIZE_MAX = 200 << 10


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Autopilot]:
    # If pictures are kept, the intervals are long enough to show five minutes of them one by one.
    interval = "interval_ms = 500\n" if os.environ.get(KEPT) else FAST
    folder = tmp_path_factory.mktemp("pictures")
    found = begin(folder, objectives=OBJECTIVES, tenants=TENANTS, interval=interval)
    for _ in range(12 if os.environ.get(KEPT) else 3):
        found.pass_intervals(20)
    yield found
    end(found)


def _is_well(row: dict[str, Any]) -> bool:
    """Whether a tenant is in its usual state: curves trusted, SLO met, no trial, not stale."""
    is_met = [slo["met"] for slo in row["slos"]] == [True]
    return bool(row["trusted"]) and is_met and row["trial"] is None and not row["stale"]


@pytest.mark.parametrize(("name", "scheme"), PICTURES)
def test_a_picture(
    shown: Autopilot, open_page: Open, name: str, scheme: str, tmp_path: Path
) -> None:
    if os.environ.get(KEPT):
        shown.until(lambda: _is_well(shown.tenants()["/tenants/kv"]))
    page = open_page(shown.address, PAGES[name], scheme=scheme, width=1440)
    expect(page.locator("header .state.live")).to_be_visible()
    expect(page.locator("main table tbody tr").first).to_be_visible()
    if name == "what-if":
        page.get_by_label("Limit of /tenants/kv", exact=True).fill(str(96 << 20))
        expect(page.get_by_test_id("then /tenants/kv")).to_have_text(re.compile(r"\d"))
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_role("dialog")).to_contain_text("/tenants/kv: limit 96 MiB")
    if name == "changes":
        page.get_by_role("button", name="details: ").last.click()
        expect(page.get_by_text("Why:").first).to_be_visible()
    _take(page, name, scheme, tmp_path, full_page=name == "tenant")


def _take(page: Page, name: str, scheme: str, folder: Path, full_page: bool = False) -> None:
    """Take a picture with 256 colours. It is kept if CACHEPILOT_SCREENSHOTS names a folder."""
    page.wait_for_timeout(1500)
    folder = Path(os.environ.get(KEPT) or folder)
    path = folder / f"dashboard-{name}{'-dark' if scheme == 'dark' else ''}.png"
    page.screenshot(path=path, full_page=full_page)
    picture = Image.open(path).convert("RGB")
    brightness = ImageStat.Stat(picture.convert("L")).mean[0]
    assert (brightness < 128) is (scheme == "dark")
    picture.quantize(256).save(path, optimize=True)
    assert 5_000 < path.stat().st_size <= SIZE_MAX


def test_a_picture_of_a_phone(shown: Autopilot, open_page: Open, tmp_path: Path) -> None:
    page = open_page(shown.address, width=PHONE_PX)
    expect(page.locator("main table tbody tr").first).to_be_visible()
    _take(page, "phone", "light", tmp_path)


def test_a_picture_of_an_slo_that_is_missed(
    shown: Autopilot, open_page: Open, tmp_path: Path
) -> None:
    asked = {"cgroup": "/tenants/reports", "hit_ratio": 0.99}
    shown.http.post("/objectives", json=asked).raise_for_status()
    slos = [{"met": False}]
    shown.until(lambda: [{"met": one["met"]} for one in _slos(shown)] == slos)
    page = open_page(shown.address)
    expect(page.locator("main .loud", has_text="missed").first).to_be_visible()
    _take(page, "missed", "light", tmp_path)


def _slos(shown: Autopilot) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shown.tenants()["/tenants/reports"]["slos"]
    return found


def test_a_picture_of_a_recommendation(open_page: Open, tmp_path: Path) -> None:
    objectives = '[[tenant]]\ncgroup = "*"\nmode = "recommend"\n'
    advised = begin(tmp_path, objectives=objectives, tenants=TENANTS)
    try:
        advised.until(lambda: advised.tenants()["/tenants/kv"]["recommendation"])
        page = open_page(advised.address, PAGES["tenant"])
        expect(page.get_by_role("heading", name="Recommended")).to_be_visible()
        _take(page, "recommendation", "light", tmp_path)
    finally:
        end(advised)


def test_a_picture_of_a_fleet_without_nodes(tmp_path: Path, open_page: Open) -> None:
    alone = begin(tmp_path, agent=False)
    try:
        page = open_page(alone.address)
        expect(page.get_by_text("No agent has connected to this controller yet")).to_be_visible()
        _take(page, "empty", "light", tmp_path)
    finally:
        end(alone)


def test_a_picture_of_a_node_that_is_stale(tmp_path: Path, open_page: Open) -> None:
    left = begin(tmp_path, objectives=OBJECTIVES, tenants=TENANTS)
    try:
        left.kill("agent")
        left.until(lambda: all(row["stale"] for row in left.tenants().values()))
        page = open_page(left.address)
        expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
        expect(page.get_by_text("stale", exact=True).first).to_be_visible()
        _take(page, "stale", "light", tmp_path)
    finally:
        end(left)
