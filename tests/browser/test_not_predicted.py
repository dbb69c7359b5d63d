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
    known = {"kind": kind, "target": 100.0, "measured": 200.0, "met": True, "verdict": "met"}
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
