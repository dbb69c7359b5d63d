# SPDX-License-Identifier: Apache-2.0
"""What orders cost, and what is recommended, as a real controller answers."""

import re
from typing import Any

import numpy as np
from autopilot_processes import Autopilot
from playwright.sync_api import expect

from .conftest import Open, begin, end
from .test_accessibility import violations

KV = "#/tenant?node=n&cgroup=/t/kv"
MIB = 1 << 20


def _tenant(pilot: Autopilot) -> dict[str, Any]:
    found: dict[str, Any] = pilot.tenants()["/t/kv"]
    return found


def _best_hit_ratio(pilot: Autopilot, limit_bytes: int) -> float:
    """Return the predicted hit ratio at a limit, under the policy that is best at that limit."""
    curves = pilot.get("/tenants/detail", cgroup="/t/kv")["curves"]
    rows = (np.interp(limit_bytes, curves["sizes_bytes"], row) for row in curves["miss_ratio"])
    return 1 - float(min(rows))


def test_an_order_that_misses_an_slo_asks_first(pilot: Autopilot, open_page: Open) -> None:
    """The SLO is half way between the hit ratios at the floor and at 16 MiB: the pin misses it."""
    pilot.until(lambda: _tenant(pilot)["trusted"])
    tenant = _tenant(pilot)
    least_mib = -(-tenant["floor_bytes"] // MIB)
    target = (_best_hit_ratio(pilot, least_mib * MIB) + _best_hit_ratio(pilot, 16 * MIB)) / 2
    slo = {"cgroup": "/t/kv", "hit_ratio": round(target, 3)}
    pilot.http.post("/objectives", json=slo).raise_for_status()
    pilot.until(lambda: _tenant(pilot)["slos"])
    page = open_page(pilot.address, KV)
    page.get_by_label("Limit, MiB").fill(str(least_mib))
    pin = page.get_by_role("button", name="Pin", exact=True).first
    pin.click()
    dialog = page.get_by_role("dialog")
    cost = re.compile(
        r"pin /t/kv: SLO hit_ratio of /t/kv would be missed: 0\.\d+ asked, 0\.\d+ pre"
    )
    expect(dialog).to_contain_text(cost)
    expect(dialog).not_to_contain_text("accept_missed_slos")
    assert violations(page) == []
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_text(cost)).to_be_visible()
    assert _tenant(pilot)["pinned_limit_bytes"] is None
    pin.click()
    dialog.get_by_role("button", name="Proceed anyway").click()
    expect(page.get_by_text(f"/t/kv: pinned to limit {least_mib} MiB")).to_be_visible()
    pilot.until(lambda: _tenant(pilot)["pinned_limit_bytes"] == least_mib * MIB)


def test_a_recommendation_is_shown_with_its_bounds(tmp_path: Any, open_page: Open) -> None:
    objectives = '[[tenant]]\ncgroup = "*"\nmode = "recommend"\n'
    pilot = begin(tmp_path, objectives=objectives)
    try:
        pilot.until(lambda: _tenant(pilot)["recommendation"])
        page = open_page(pilot.address, KV)
        panel = page.locator("section[aria-labelledby=recommended-title]")
        expect(panel).to_contain_text(re.compile(r"[\d.]+ [KM]iB to [\d.]+ [KM]iB, now 16 MiB"))
        expect(panel).to_contain_text(re.compile(r"[\d,.]+ to [\d,.]+"))
        expect(panel).to_contain_text("Confidence")
    finally:
        end(pilot)
