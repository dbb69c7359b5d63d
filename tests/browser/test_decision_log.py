# SPDX-License-Identifier: Apache-2.0
"""What the buttons of the decision log do, for a decision of every kind."""

import json
from typing import Any

import pytest
from autopilot_processes import Autopilot
from playwright.sync_api import Page, Route, expect

from cachepilot.domain.decisions import Event

from .conftest import Open

MIB = 1 << 20
LED_NOWHERE = (Event.REFUSED,)
TAKEN_BACK = (Event.REVERTED, Event.ABANDONED)


def decision(number: int, event: str, **more: Any) -> dict[str, Any]:
    """A row of the log: from lfu to mru unless it says otherwise."""
    return {
        "id": number, "time_s": 1e9 + number, "node": "n", "cgroup": "/t/kv", "epoch": number,
        "event": event, "from_policy": "lfu", "to_policy": "mru",
        "from_limit_bytes": 64 * MIB, "to_limit_bytes": 64 * MIB,
        "baseline_ops": 13130.0, "predicted_ops": 22130.0, "measured_ops": 21000.0,
        "baseline_miss_ratio": 0.5, "predicted_miss_ratio": 0.25, "measured_miss_ratio": 0.25,
        "why": "miss ratio 0.5000 -> 0.2500", "in_force": event == Event.KEPT, **more,
    }  # fmt: skip


def show(page: Page, rows: list[dict[str, Any]], posted: list[Any]) -> None:
    """Shows a log of these rows; what would be ordered is only written down."""

    def write_down(route: Route) -> None:
        posted.append(json.loads(route.request.post_data or "null"))
        route.fulfill(status=200, content_type="application/json", body="{}")

    page.route("**/api/v1/history*", lambda route: route.fulfill(
        status=200, content_type="application/json", body=json.dumps(rows)
    ))  # fmt: skip
    for path in ("pins", "reverts"):
        page.route(f"**/api/v1/{path}", write_down)
    page.evaluate("location.hash = '#/decisions'")
    expect(page.locator("tbody tr").nth(len(rows) - 1)).to_be_visible()


@pytest.mark.parametrize("event", list(Event))
def test_pin_keeps_what_a_decision_led_to(shared: Autopilot, open_page: Open, event: Event) -> None:
    page, posted = open_page(shared.address), list[Any]()
    bounds = {"from_limit_bytes": 64 * MIB, "to_limit_bytes": 96 * MIB}
    show(page, [decision(2, event), decision(1, event, to_policy="lfu", **bounds)], posted)
    expect(page.get_by_role("button", name="Why: ")).to_have_count(2)
    buttons = page.get_by_role("button", name=f"Pin what {event} of /t/kv led to")
    if event in LED_NOWHERE:
        expect(buttons).to_have_count(0)
        return
    back = event in TAKEN_BACK
    wanted = {"policy": "lfu" if back else "mru"}, {"limit_bytes": (64 if back else 96) * MIB}
    dialog = page.get_by_role("dialog")
    for at, text in enumerate((f"policy {wanted[0]['policy']}", f"limit {64 if back else 96} MiB")):
        buttons.nth(at).click()
        expect(dialog).to_contain_text(text)
        dialog.get_by_role("button", name="Pin").click()
        expect(page.get_by_text(f"/t/kv: pinned to {text}")).to_be_visible()
        expect(buttons.nth(at)).to_be_focused()
    assert posted == [{"node": "n", "cgroup": "/t/kv", **one} for one in wanted]


def test_revert_is_offered_on_what_is_in_force_alone(shared: Autopilot, open_page: Open) -> None:
    page, posted = open_page(shared.address), list[Any]()
    show(page, [decision(2, "kept"), decision(1, "trial")], posted)
    expect(page.get_by_role("button", name="Pin what ")).to_have_count(2)
    button = page.get_by_role("button", name="Revert ")
    expect(button).to_have_count(1)
    button.click()
    page.get_by_role("dialog").get_by_role("button", name="Revert").click()
    expect(page.get_by_text("/t/kv: back to policy lfu")).to_be_visible()
    assert posted == [{"decision": 2}]
    # Its own button may be gone by the next answer.
    expect(page.get_by_role("button", name="Why: kept of /t/kv")).to_be_focused()
