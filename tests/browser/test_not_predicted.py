# SPDX-License-Identifier: Apache-2.0
"""What the page shows of tenants whose curves give no prediction."""

from typing import Any

import pytest
from autopilot_processes import Autopilot
from playwright.sync_api import Page, expect

from .conftest import Open

TENANT = "#/tenant?node=n&cgroup=/t/loop"
DOUBT = "few accesses"


def _slo(kind: str, state: str) -> dict[str, Any]:
    unknown = dict.fromkeys(("predicted", "attainable", "attainable_ops", "attainment"))
    known = {"kind": kind, "target": 1.0, "measured": 0.5, "met": False, "verdict": "missed"}
    return {**known, **unknown, "state": state, "why": f"no prediction: {DOUBT}"}


def _show(shared: Autopilot, open_page: Open, states: dict[str, str]) -> Page:
    """Open a tenant of low confidence that has an SLO of each kind in `states`."""
    found: dict[str, Any] = shared.get("/tenants/detail", node="n", cgroup="/t/loop")
    slos = [_slo(kind, state) for kind, state in states.items()]
    found["tenant"] |= {"slos": slos, "trusted": False, "distrust": DOUBT, "throughput_ops": 200.0}
    found |= {"predicted_miss_ratio": None, "predicted_ops": None, "prediction_error": None}
    found |= {"needed_for_slo_bytes": None, "needed_policy": None}
    page = open_page(shared.address)
    page.route("**/api/v1/tenants/detail?*", lambda route: route.fulfill(json=found))
    page.evaluate(f"location.hash = '{TENANT}'")
    return page


@pytest.mark.parametrize("state", ["unknown", "stale"])
def test_the_memory_that_slos_need_is_unknown_without_a_prediction(
    shared: Autopilot, open_page: Open, state: str
) -> None:
    page = _show(shared, open_page, {"throughput_ops": "met", "latency_p99_us": state})
    panel = page.locator("section[aria-labelledby=slo-title]")
    expect(panel).to_contain_text("memory needed: unknown")
    expect(panel).not_to_contain_text("cannot all be met")


def test_an_slo_that_was_last_predicted_to_be_unattainable_stays_so(
    shared: Autopilot, open_page: Open
) -> None:
    page = _show(shared, open_page, {"throughput_ops": "unattainable", "hit_ratio": "unknown"})
    panel = page.locator("section[aria-labelledby=slo-title]")
    expect(panel).to_contain_text("cannot all be met on this node, last predicted")
    expect(panel).to_contain_text("last predicted to be unattainable")
    expect(panel).to_contain_text("not predicted")


def test_a_throughput_that_is_not_predicted_says_why(shared: Autopilot, open_page: Open) -> None:
    page = _show(shared, open_page, {})
    figure = page.locator("dl > div").filter(has_text="Throughput, predicted")
    expect(figure).to_contain_text("not predicted")
    expect(figure).to_contain_text(DOUBT)
    expect(figure).not_to_contain_text("against measured")


@pytest.mark.parametrize("is_known", [True, False])
def test_sums_of_what_if_leave_out_what_is_not_predicted(
    shared: Autopilot, open_page: Open, is_known: bool
) -> None:
    row = {"policy": "default", "limit_bytes": 1 << 26, "slos": [], "miss_ratio": 0.2}
    row |= {f"to_{key}": row[key] for key in ("policy", "limit_bytes", "miss_ratio")}
    first = {"cgroup": "/t/kv", "throughput_ops": 100.0, "to_throughput_ops": 150.0}
    second = {"cgroup": "/t/loop", "throughput_ops": 900.0, "to_throughput_ops": 900.0}
    told = [{**row, **first, "predicted": is_known}, {**row, **second, "predicted": False}]
    answer = {"node": "n", "tenants": told, "unallocated_bytes": 0}
    answer |= {"device_share": 0.5, "notes": []}
    page = open_page(shared.address)
    page.route("**/api/v1/what-if", lambda route: route.fulfill(json=answer))
    page.evaluate("location.hash = '#/what-if?node=n'")
    figures = page.locator("dl").first
    if is_known:
        expect(figures).to_contain_text("150/s")
        expect(figures).to_contain_text("now 100/s, predicted; tenants not predicted, left out: 1")
        expect(figures).to_contain_text("+50.0%")
    else:
        expect(figures.get_by_text("not predicted", exact=True)).to_be_visible()
        expect(figures).to_contain_text("tenants not predicted, left out: 2")
        expect(figures).not_to_contain_text("now ")
