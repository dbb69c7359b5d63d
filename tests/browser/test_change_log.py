# SPDX-License-Identifier: Apache-2.0
"""The list of changes: its buttons, filters and details, for every kind and outcome of a change."""

import json
import re
from typing import Any

import pytest
from autopilot_processes import Autopilot
from playwright.sync_api import Page, Route, expect

from cachepilot.domain.past.change import ChangeKind, ChangeState

from .conftest import Open

MIB = 1 << 20
OF_TENANTS = (ChangeKind.POLICY, ChangeKind.MEMORY, ChangeKind.RECOMMENDATION)
TAKEN_BACK = (ChangeState.UNDONE, ChangeState.ABANDONED)


def change(number: int, state: str = "confirmed", **more: Any) -> dict[str, Any]:
    """Return a row of the list: by default a change of /t/kv from lfu to mru."""
    return {
        "id": number, "kind": "policy", "state": state, "node": "n", "cgroup": "/t/kv",
        "begun_s": 1e9 + number, "ended_s": 1e9 + number + 90, "epoch": number,
        "by_kind": "autopilot", "by": "autopilot", "from_policy": "lfu", "to_policy": "mru",
        "from_limit_bytes": 64 * MIB, "to_limit_bytes": 64 * MIB,
        "baseline_ops": 13130.0, "predicted_ops": 22130.0, "measured_ops": 21000.0,
        "baseline_miss_ratio": 0.5, "predicted_miss_ratio": 0.25, "measured_miss_ratio": 0.25,
        "text": "lfu to mru", "why": "miss ratio 0.5000 -> 0.2500", "outcome": "", "before": None,
        "after": None, "count": 1, "in_force": state == "confirmed", **more,
    }  # fmt: skip


def show(page: Page, rows: list[dict[str, Any]], posted: list[Any]) -> None:
    """Show these rows in the list of changes. Orders are appended to `posted` only."""

    def write_down(route: Route) -> None:
        posted.append(json.loads(route.request.post_data or "null"))
        route.fulfill(status=200, content_type="application/json", body="{}")

    page.route("**/api/v1/changes?*", lambda route: route.fulfill(
        status=200, content_type="application/json", body=json.dumps(rows)
    ))  # fmt: skip
    for path in ("pins", "reverts"):
        page.route(f"**/api/v1/{path}", write_down)
    page.evaluate("location.hash = '#/changes'")
    expect(page.locator("tbody tr").nth(len(rows) - 1)).to_be_visible()


@pytest.mark.parametrize("state", list(ChangeState))
def test_pin_keeps_what_a_change_led_to(
    shared: Autopilot, open_page: Open, state: ChangeState
) -> None:
    page, posted = open_page(shared.address), list[Any]()
    sizes = {"from_limit_bytes": 64 * MIB, "to_limit_bytes": 96 * MIB}
    moved = change(1, state, kind="memory", to_policy="lfu", **sizes)
    show(page, [change(2, state), moved], posted)
    expect(page.get_by_role("button", name="details: ")).to_have_count(2)
    buttons = page.get_by_role("button", name="Pin what this led to")
    if state is ChangeState.REFUSED:
        expect(buttons).to_have_count(0)
        return
    back = state in TAKEN_BACK
    wanted = {"policy": "lfu" if back else "mru"}, {"limit_bytes": (64 if back else 96) * MIB}
    dialog = page.get_by_role("dialog")
    for at, text in enumerate((f"policy {wanted[0]['policy']}", f"limit {64 if back else 96} MiB")):
        buttons.nth(at).click()
        expect(dialog).to_contain_text(text)
        dialog.get_by_role("button", name="Pin").click()
        expect(page.get_by_text(f"/t/kv: pinned to {text}")).to_be_visible()
        expect(buttons.nth(at)).to_be_focused()
    assert posted == [{"node": "n", "cgroup": "/t/kv", **one} for one in wanted]


@pytest.mark.parametrize("kind", [one for one in ChangeKind if one not in OF_TENANTS])
def test_a_change_without_a_setting_cannot_be_pinned(
    shared: Autopilot, open_page: Open, kind: ChangeKind
) -> None:
    page = open_page(shared.address)
    show(page, [change(1, "done", kind=kind, text="what was ordered", by="alice")], [])
    expect(page.get_by_text("what was ordered")).to_be_visible()
    expect(page.get_by_text("alice (autopilot)")).to_be_visible()
    expect(page.get_by_role("button", name="Pin what ")).to_have_count(0)


def test_revert_is_offered_on_what_is_in_force_alone(shared: Autopilot, open_page: Open) -> None:
    page, posted = open_page(shared.address), list[Any]()
    show(page, [change(2), change(1, "undone")], posted)
    button = page.get_by_role("button", name="Revert: ")
    expect(button).to_have_count(1)
    button.click()
    page.get_by_role("dialog").get_by_role("button", name="Revert").click()
    expect(page.get_by_text("/t/kv: back to policy lfu")).to_be_visible()
    assert posted == [{"change": 2}]
    # The button that was pressed may no longer exist after the next answer.
    expect(page.locator("[data-open='2']")).to_be_focused()


def test_a_row_opens_to_its_evidence_over_time(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address)
    row = change(7, outcome="it gained as much as was predicted")
    column = [1.0, 2.0, 3.0]
    evidence = {
        "unit": "seconds saved", "time_s": [1e9 + 7, 1e9 + 8, 1e9 + 9], "gained": column,
        "predicted": column, "bound": [None, 1.0, 1.0], "throughput_ops": column,
        "miss_ratio": [0.5, 0.4, 0.3],
    }  # fmt: skip
    page.route("**/api/v1/changes/detail?*", lambda route: route.fulfill(
        json={"change": row, "evidence": evidence}
    ))  # fmt: skip
    show(page, [row], [])
    opens = page.get_by_role("button", name="details: policy of /t/kv")
    opens.click()
    expect(opens).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_text("it gained as much as was predicted")).to_be_visible()
    expect(page.get_by_text("Evidence, seconds saved")).to_be_visible()
    chart = page.get_by_role("img", name="Evidence over time")
    expect(chart).to_be_visible()
    assert "gained, measured 3" in (chart.get_attribute("aria-label") or "")
    opens.click()
    expect(chart).to_have_count(0)


def test_filters_are_sent_to_the_controller_and_kept_in_the_address(
    shared: Autopilot, open_page: Open
) -> None:
    page = open_page(shared.address, "#/changes")
    expect(page.get_by_role("heading", name="Changes")).to_be_visible()
    with page.expect_request(lambda asked: "by=alice" in asked.url and "kind=pin" in asked.url):
        page.get_by_label("By").fill("alice")
        page.get_by_label("Kind").select_option("pin")
    expect(page.get_by_text("No change matches these filters.")).to_be_visible()
    expect(page).to_have_url(re.compile("by=alice"))
    other = open_page(shared.address, page.evaluate("location.hash"))
    expect(other.get_by_label("By")).to_have_value("alice")
    expect(other.get_by_label("Kind")).to_have_value("pin")
    page.get_by_label("Time").select_option("24h")
    page.get_by_role("button", name="Clear filters").click()
    expect(page.get_by_label("By")).to_have_value("")
    expect(page).to_have_url(re.compile("#/changes$"))
