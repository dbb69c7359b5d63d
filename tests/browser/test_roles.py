# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a controller that asks for tokens, for viewers and operators."""

import secrets
from collections.abc import Iterator

import pytest
from autopilot_processes import Autopilot
from playwright.sync_api import Page, expect

from .conftest import Open, begin, end

VIEWER, OPERATOR = secrets.token_hex(32), secrets.token_hex(32)
ACCESS = '[access]\nviewer_tokens = "viewer"\noperator_tokens = "operator"\n'
REASON = "a viewer may only look"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Autopilot]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "viewer").write_text(f"{VIEWER}\n")
    (folder / "operator").write_text(f"{OPERATOR}\n")
    found = begin(folder, controller=ACCESS, token=OPERATOR)
    pinned = found.http.post("/pins", json={"cgroup": "/t/loop", "policy": "mru"})
    pinned.raise_for_status()
    yield found
    end(found)


def _enter(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Continue").click()


def test_a_token_is_asked_for_and_a_wrong_one_refused(guarded: Autopilot, open_page: Open) -> None:
    page = open_page(guarded.address)
    expect(page.get_by_role("heading", name="A token is needed")).to_be_visible()
    _enter(page, "x" * 40)
    expect(page.get_by_role("alert")).to_contain_text("token is not known")
    _enter(page, OPERATOR)
    expect(page.get_by_text("operator", exact=True)).to_be_visible()
    expect(page.get_by_text("2 listed")).to_be_visible()
    page.reload()
    expect(page.get_by_text("2 listed")).to_be_visible()


def test_a_viewer_sees_all_and_changes_nothing(guarded: Autopilot, open_page: Open) -> None:
    guarded.until(lambda: guarded.tenants()["/t/loop"]["policy"] == "mru")
    page = open_page(guarded.address, "#/tenant?node=n&cgroup=/t/loop")
    _enter(page, VIEWER)
    changed = []
    page.on("request", lambda asked: changed.append(asked.url) if asked.method != "GET" else None)
    expect(page.get_by_test_id("policy")).to_have_text("mru")
    for name in ("Unpin", "Set SLO", "Pin"):
        button = page.get_by_role("button", name=name, exact=True).first
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(button).to_have_attribute("title", REASON)
    page.get_by_role("button", name="Unpin").click(force=True)
    page.get_by_label("op/s, at least").fill("10")
    page.get_by_label("op/s, at least").press("Enter")
    page.get_by_role("button", name="Set SLO").click(force=True)
    page.get_by_label("Policy", exact=True).select_option("lfu")
    page.get_by_role("button", name="Pin", exact=True).first.click(force=True)
    page.goto(f"http://{guarded.address}/#/what-if?node=n")
    expect(page.get_by_text(f"{REASON}: the controller answers this question")).to_be_visible()
    expect(page.get_by_label("Limit of /t/kv", exact=True)).to_be_disabled()
    assert changed == []
    row = guarded.tenants()["/t/loop"]
    assert (row["pinned_policy"], row["slos"]) == ("mru", [])
    assert [one["cgroup"] for one in guarded.get("/objectives")["tenant"]] == ["*"]
