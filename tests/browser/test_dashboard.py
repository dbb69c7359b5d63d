# SPDX-License-Identifier: Apache-2.0
"""What an operator does in the dashboard, against a real controller and agent."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from autopilot_processes import Autopilot
from playwright.sync_api import Page, expect

from .conftest import Open, begin, end

TENANT = "#/tenant?node=n&cgroup=/t/loop"
OBJECTIVES = '[[tenant]]\ncgroup = "/t/*"\nmemory_min = "8MiB"\n'


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Autopilot]:
    """Share one set-up among tests that restore what they change."""
    found = begin(tmp_path_factory.mktemp("shared"), objectives=OBJECTIVES)
    yield found
    end(found)


def _stated(pilot: Autopilot, cgroup: str) -> dict[str, Any] | None:
    return next(
        (one for one in pilot.get("/objectives")["tenant"] if one["cgroup"] == cgroup), None
    )


def _mark(page: Page) -> None:
    """Set a mark in the page that a reload would remove."""
    page.evaluate("window.mark = 1")


def _is_marked(page: Page) -> bool:
    return bool(page.evaluate("window.mark === 1"))


def test_an_slo_is_set_and_deleted(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address, "#/tenant?node=n&cgroup=/t/kv")
    page.get_by_label("Kind of SLO").select_option("throughput_ops")
    page.get_by_label("op/s, at least").fill("50")
    page.get_by_role("button", name="Set SLO").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="throughput"))
    expect(row).to_contain_text("50 op/s")
    stated = _stated(shared, "/t/kv")
    assert stated is not None and stated["throughput_ops"] == 50
    expect(row).to_contain_text("met")
    page.get_by_label("Kind of SLO").select_option("hit_ratio")
    page.get_by_label("%, at least").fill("1")
    page.get_by_role("button", name="Set SLO").click()
    expect(page.get_by_role("rowheader", name="hit ratio")).to_be_visible()
    stated = _stated(shared, "/t/kv")
    assert stated is not None and (stated["throughput_ops"], stated["hit_ratio"]) == (50, 0.01)
    page.get_by_role("button", name="Delete the SLO of throughput").click()
    expect(row).to_have_count(0)
    page.get_by_role("button", name="Delete the SLO of hit ratio").click()
    expect(page.get_by_text("It has no SLO.")).to_be_visible()
    assert _stated(shared, "/t/kv") is None


def test_an_slo_under_a_glob_keeps_all_that_the_glob_says(
    shared: Autopilot, open_page: Open
) -> None:
    before = shared.get("/objectives")
    more = {"throughput_ops": 70, "hit_ratio": 0.01}
    glob = {"cgroup": "/t/k*", "mode": "observe", "indicator": "accesses", "memory_min": "9MiB"}
    stated = {**before, "tenant": [{**glob, **more}, *before["tenant"]]}
    shared.http.put("/objectives", json=stated).raise_for_status()
    try:
        page = open_page(shared.address, "#/tenant?node=n&cgroup=/t/kv")
        # The glob's SLO is deleted for this cgroup only; the glob's other cgroups keep it.
        page.get_by_role("button", name="Delete the SLO of throughput").click()
        expect(page.get_by_text("/t/kv: the SLO of throughput is gone")).to_be_visible()
        expect(page.get_by_role("rowheader", name="throughput")).to_have_count(0)
        assert _stated(shared, "/t/kv") == {**glob, "cgroup": "/t/kv", "hit_ratio": 0.01}
        assert _stated(shared, "/t/k*") == {**glob, **more}
        # Setting an SLO must not undo what somebody else sets meanwhile.
        shared.http.post("/objectives", json={**glob, "cgroup": "/t/kv", "weight": 3})
        page.get_by_label("op/s, at least").fill("60")
        page.get_by_role("button", name="Set SLO").click()
        expect(page.get_by_text("/t/kv: the SLO of throughput is set")).to_be_visible()
        wanted = {**glob, "cgroup": "/t/kv", "weight": 3, "throughput_ops": 60}
        assert _stated(shared, "/t/kv") == wanted
        assert shared.tenants()["/t/kv"]["mode"] == "observe"
    finally:
        shared.http.put("/objectives", json=before).raise_for_status()


def test_a_refusal_is_shown(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address, TENANT)
    page.get_by_label("Limit, MiB").fill("1000000")
    page.get_by_role("button", name="Pin", exact=True).first.click()
    told = re.compile("pin /t/loop: limit .* is above .*, the node.s memory capacity")
    expect(page.get_by_text(told)).to_be_visible()
    assert shared.tenants()["/t/loop"]["pinned_limit_bytes"] is None


def test_a_pin_by_another_person_appears_by_itself(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address, TENANT)
    policy = page.get_by_test_id("policy")
    expect(policy).to_be_visible()
    _mark(page)
    wanted = "mru" if policy.inner_text() != "mru" else "lfu"
    shared.http.post("/pins", json={"cgroup": "/t/loop", "policy": wanted}).raise_for_status()
    expect(policy).to_have_text(wanted)
    expect(page.get_by_text(f"pinned to policy {wanted}")).to_be_visible()
    assert _is_marked(page)
    page.get_by_role("button", name="Unpin").click()
    expect(page.get_by_text("the autopilot decides", exact=True)).to_be_visible()
    assert shared.tenants()["/t/loop"]["pinned_policy"] is None


def test_a_policy_and_a_limit_are_pinned_in_the_page(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address, TENANT)
    page.get_by_label("Policy", exact=True).select_option("s3fifo")
    page.get_by_label("Limit, MiB").fill("12.5")
    page.get_by_role("button", name="Pin", exact=True).first.click()
    expect(page.get_by_text("pinned to policy s3fifo, limit 12.5 MiB").first).to_be_visible()
    shared.until(lambda: shared.tenants()["/t/loop"]["policy"] == "s3fifo")
    assert shared.tenants()["/t/loop"]["pinned_limit_bytes"] == 12_800 << 10
    page.get_by_role("button", name="Unpin").click()
    shared.until(lambda: shared.tenants()["/t/loop"]["pinned_limit_bytes"] is None)


def _log(pilot: Autopilot) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pilot.get("/changes", limit=1000) or []
    return found


def _revert_what_is_in_force(pilot: Autopilot, page: Page) -> dict[str, Any]:
    """Revert a change in force by the page, and return its row.

    A trial may end while the dialog is open; then the revert is refused, and this tries again.
    """
    dialog = page.get_by_role("dialog")
    for _ in range(10):
        page.get_by_role("button", name=re.compile("^Revert: ")).first.click()
        expect(dialog).to_contain_text("then the autopilot decides again")
        with page.expect_response("**/api/v1/reverts") as answer:
            dialog.get_by_role("button", name="Revert").click()
        if answer.value.ok:
            break
    number = json.loads(answer.value.request.post_data or "")["change"]
    one = next(row for row in _log(pilot) if row["id"] == number)
    expect(page.get_by_text(re.compile(f"{one['cgroup']}: back to"))).to_be_visible()
    return one


def test_a_change_arrives_is_explained_and_reverted(pilot: Autopilot, open_page: Open) -> None:
    page = open_page(pilot.address, "#/changes")
    expect(page.get_by_role("heading", name="Changes")).to_be_visible()
    _mark(page)
    details = page.get_by_role("button", name=re.compile("details: (policy|memory) of")).last
    expect(details).to_be_visible(timeout=120_000)
    assert _is_marked(page)
    # The last button belongs to the oldest change; more changes may have come meanwhile.
    number = int(details.get_attribute("data-open") or "")
    details.click()
    expect(details).to_have_attribute("aria-expanded", "true")
    first = next(row for row in _log(pilot) if row["id"] == number)
    expect(page.locator(f"#details-{number}")).to_contain_text(first["why"])
    details.click()
    expect(page.locator(f"#details-{number}")).to_have_count(0)
    expect(details).to_be_focused()
    one = _revert_what_is_in_force(pilot, page)
    # A tenant shows its pin from the next interval on.
    key = "policy" if one["kind"] == "policy" else "limit_bytes"
    pilot.until(lambda: pilot.tenants()[one["cgroup"]][f"pinned_{key}"] == one[f"from_{key}"])
    hold_s = pilot.tenants()[one["cgroup"]]["pinned_until_s"] - time.time()
    assert 3000 < hold_s <= 3600
    # A change that was reverted cannot be reverted again, and the page no longer offers it.
    pilot.until(lambda: not any(row["in_force"] for row in _log(pilot) if row["id"] == one["id"]))
    refused = pilot.http.post("/reverts", json={"change": one["id"]})
    assert (refused.status_code, "not in force" in refused.json()["error"]) == (422, True)
    # The autopilot goes on meanwhile, so the page is compared with the present log.
    buttons = page.get_by_role("button", name=re.compile("^Revert: "))
    pilot.until(lambda: buttons.count() == sum(row["in_force"] for row in _log(pilot)))
    assert _is_marked(page)
    if key == "policy":
        pilot.until(lambda: pilot.tenants()[one["cgroup"]]["policy"] == one["from_policy"])


def test_a_what_if_predicts_and_changes_nothing(shared: Autopilot, open_page: Open) -> None:
    shared.until(lambda: shared.tenants()["/t/kv"]["trusted"])
    page = open_page(shared.address, "#/what-if?node=n")
    then = page.get_by_test_id("then /t/kv")
    expect(then).to_contain_text(re.compile(r"\d"))
    earlier = then.inner_text()
    slider = page.get_by_label("Limit of /t/kv", exact=True)
    slider.focus()
    page.keyboard.press("Home")
    expect(then).not_to_have_text(earlier)
    expect(page.get_by_role("button", name="Let the limit of /t/kv be planned")).to_be_visible()
    page.get_by_label("Policy of /t/loop").select_option("sieve")
    row = page.get_by_role("row").filter(has_text="/t/loop")
    expect(row.get_by_role("cell", name="sieve", exact=True).last).to_be_visible()
    page.get_by_label("Throughput SLO of /t/kv").fill("1000000")
    # With a fixed limit there is nothing to plan for the SLO.
    expect(page.get_by_text("throughput predicted to be missed at a fixed setting")).to_be_visible()
    page.get_by_role("button", name="Let the limit of /t/kv be planned").click()
    told = re.compile("throughput predicted to be (unattainable|missed, other)")
    expect(page.get_by_text(told)).to_be_visible()
    page.get_by_role("slider", name="Memory of the node", exact=True).press("End")
    expect(page.get_by_text("now 32 MiB")).to_be_visible()
    assert _stated(shared, "/t/kv") is None
    assert all(row["pinned_policy"] is None for row in shared.tenants().values())


def test_a_what_if_is_repeated_once_the_controller_is_back(
    pilot: Autopilot, open_page: Open
) -> None:
    page = open_page(pilot.address, "#/what-if?node=n")
    then, figure = page.get_by_test_id("then /t/kv"), re.compile(r"\d")
    expect(then).to_contain_text(figure)
    pilot.kill("controller")
    expect(page.get_by_text("connection lost")).to_be_visible()
    slider = page.get_by_label("Limit of /t/kv", exact=True)
    slider.focus()
    page.keyboard.press("Home")
    expect(page.get_by_role("alert")).to_have_text("the controller does not answer")
    expect(then).not_to_contain_text(figure)
    pilot.start("controller")
    expect(then).to_contain_text(figure, timeout=90_000)
    expect(page.get_by_role("alert")).to_have_count(0)


def _range_s(url: str) -> float | None:
    """Return the seconds of the time series that a URL asks for; None for other requests."""
    asked = parse_qs(urlsplit(url).query)
    if "tenants/series" not in url or "until" not in asked:
        return None
    return float(asked["until"][0]) - float(asked["since"][0])


def test_a_time_range_is_sent_to_the_controller_and_kept_in_the_address(
    shared: Autopilot, open_page: Open
) -> None:
    page = open_page(shared.address, TENANT)
    expect(page.get_by_role("img", name="Throughput over time")).to_be_visible()
    # A request for the earlier range may still be under way.
    with page.expect_request(lambda asked: _range_s(asked.url) == pytest.approx(6 * 3600)):
        page.get_by_role("button", name="6 h", exact=True).click()
    expect(page).to_have_url(re.compile("range=6h"))


def test_a_what_if_question_is_kept_in_the_address(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address, "#/what-if?node=n")
    page.get_by_label("Policy of /t/loop").select_option("sieve")
    page.get_by_label("Throughput SLO of /t/kv").fill("1234")
    expect(page).to_have_url(re.compile("slo=1234"))
    other = open_page(shared.address, page.evaluate("location.hash"))
    expect(other.get_by_label("Policy of /t/loop")).to_have_value("sieve")
    expect(other.get_by_label("Throughput SLO of /t/kv")).to_have_value("1234")


def test_a_what_if_is_applied_and_undone(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address, "#/what-if?node=n")
    apply = page.get_by_role("button", name="Apply")
    expect(apply).to_have_attribute("aria-disabled", "true")
    page.get_by_label("Policy of /t/loop").select_option("sieve")
    apply.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("/t/loop: policy sieve")
    dialog.get_by_role("button", name="Apply").click()
    shared.until(lambda: shared.tenants()["/t/loop"]["pinned_policy"] == "sieve")
    hold_s = shared.tenants()["/t/loop"]["pinned_until_s"] - time.time()
    assert 3000 < hold_s <= 3600
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("it is as it was before")).to_be_visible()
    shared.until(lambda: shared.tenants()["/t/loop"]["pinned_policy"] is None)


def test_the_controller_searches_and_sorts(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address)
    expect(page.get_by_text("2 listed")).to_be_visible()
    with page.expect_request(lambda asked: "search=loop" in asked.url):
        page.get_by_label("Search node, cgroup and policy").fill("loop")
    expect(page.get_by_text("1 listed")).to_be_visible()
    page.get_by_label("Search node, cgroup and policy").fill("")
    order = page.get_by_role("button", name="Tenant", exact=True)
    order.click()
    order.click()
    links = page.locator("section[aria-labelledby=tenants-title] tbody a")
    expect(links).to_have_text(["/t/loop", "/t/kv"])
    expect(page.get_by_role("columnheader", name="Tenant").last).to_have_attribute(
        "aria-sort", "descending"
    )


def test_the_keyboard_reaches_everything(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address)
    expect(page.get_by_text("2 listed")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "/t/kv":
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="/t/kv")).to_be_visible()


def test_a_theme_that_was_chosen_stays(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address, scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_a_lost_controller_is_shown_and_found_again(pilot: Autopilot, open_page: Open) -> None:
    page = open_page(pilot.address)
    expect(page.locator("header .state.live")).to_be_visible()
    pilot.kill("controller")
    expect(page.get_by_text("connection lost")).to_be_visible()
    pilot.start("controller")
    expect(page.locator("header .state.live")).to_be_visible(timeout=90_000)
