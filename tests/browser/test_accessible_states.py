# SPDX-License-Identifier: Apache-2.0
"""Run axe-core on states of the page that need a token, a mode, a rollout or a lost controller."""

import secrets
from pathlib import Path

from autopilot_processes import Autopilot
from playwright.sync_api import expect

from .conftest import Open, begin, end
from .test_accessibility import violations
from .test_consolidation import ROLLOUT

ACCESS = '[access]\nviewer_tokens = "viewer"\noperator_tokens = "operator"\n'
KV = "#/tenant?node=n&cgroup=/t/kv"


def test_the_question_for_a_token_and_the_page_of_a_viewer(tmp_path: Path, open_page: Open) -> None:
    viewer, operator = secrets.token_hex(32), secrets.token_hex(32)
    (tmp_path / "viewer").write_text(f"{viewer}\n")
    (tmp_path / "operator").write_text(f"{operator}\n")
    guarded = begin(tmp_path, controller=ACCESS, token=operator)
    try:
        page = open_page(guarded.address, KV)
        expect(page.get_by_role("heading", name="A token is needed")).to_be_visible()
        assert violations(page) == []
        for token in ("x" * 40, viewer):
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Continue").click()
            if token != viewer:
                expect(page.get_by_role("alert")).to_contain_text("token is not known")
                assert violations(page) == []
        expect(page.get_by_role("button", name="Set SLO")).to_have_attribute(
            "aria-disabled", "true"
        )
        assert violations(page) == []
        page.evaluate("location.hash = '#/what-if?node=n'")
        expect(page.get_by_text("a viewer may only look")).to_be_visible()
        assert violations(page) == []
    finally:
        end(guarded)


def test_the_last_rollout(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address)
    page.route("**/api/v1/consolidation/rollout", lambda route: route.fulfill(json=ROLLOUT))
    page.evaluate("location.hash = '#/consolidation'")
    expect(page.locator("section[aria-labelledby=rollout-title] tbody tr")).to_be_visible()
    assert violations(page) == []


def test_a_recommendation(tmp_path: Path, open_page: Open) -> None:
    advised = begin(tmp_path, objectives='[[tenant]]\ncgroup = "*"\nmode = "recommend"\n')
    try:
        advised.until(lambda: advised.tenants()["/t/kv"]["recommendation"])
        page = open_page(advised.address, KV)
        expect(page.get_by_role("heading", name="Recommended")).to_be_visible()
        expect(page.get_by_text("Throughput of 95% of intervals")).to_be_visible()
        expect(page.get_by_text("As it is, predicted")).to_have_count(0)
        assert violations(page) == []
    finally:
        end(advised)


def test_a_lost_controller(pilot: Autopilot, open_page: Open) -> None:
    page = open_page(pilot.address)
    expect(page.locator("header .state.live")).to_be_visible()
    pilot.kill("controller")
    expect(page.get_by_text("connection lost")).to_be_visible()
    assert violations(page) == []
