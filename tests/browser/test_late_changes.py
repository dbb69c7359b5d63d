# SPDX-License-Identifier: Apache-2.0
"""Changes under an open page: its token, the tenant that it shows, the length of a list."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from autopilot_processes import Autopilot
from playwright.sync_api import Page, Route, expect

from .conftest import Open, begin, end

ACCESS = '[access]\nviewer_tokens = "viewer"\noperator_tokens = "operator"\n'
OPERATOR = secrets.token_hex(32)
ROWS = 400
CHARTS = ".uplot canvas"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Autopilot, Path]]:
    """Start a controller that asks for tokens. Return it with the folder of the token files."""
    (tmp_path / "viewer").write_text(f"{secrets.token_hex(32)}\n")
    (tmp_path / "operator").write_text(f"{OPERATOR}\n")
    found = begin(tmp_path, controller=ACCESS, token=OPERATOR)
    yield found, tmp_path
    end(found)


def _enter(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Continue").click()


def test_a_token_that_is_withdrawn_is_asked_for_again(
    guarded: tuple[Autopilot, Path], open_page: Open
) -> None:
    pilot, folder = guarded
    page = open_page(pilot.address)
    _enter(page, OPERATOR)
    expect(page.get_by_text("2 listed")).to_be_visible()
    page.evaluate("window.mark = 1")
    fresh = secrets.token_hex(32)
    pilot.kill("controller")
    (folder / "operator").write_text(f"{fresh}\n")
    pilot.start("controller")
    expect(page.get_by_role("heading", name="A token is needed")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("alert")).to_contain_text("token is not known")
    expect(page.get_by_text("2 listed")).to_have_count(0)
    _enter(page, fresh)
    expect(page.get_by_text("2 listed")).to_be_visible(timeout=60_000)
    expect(page.get_by_text("operator", exact=True)).to_be_visible()
    assert page.evaluate("window.mark") == 1


def test_an_answer_to_an_old_token_does_not_undo_the_new_one(
    guarded: tuple[Autopilot, Path], open_page: Open
) -> None:
    pilot, _ = guarded
    page = open_page(pilot.address)
    expect(page.get_by_role("heading", name="A token is needed")).to_be_visible()
    wrong = "x" * 40
    held: list[Route] = []

    def hold(route: Route) -> None:
        if wrong in route.request.headers.get("authorization", ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/v1/tenants?*", hold)
    _enter(page, wrong)
    expect(page.get_by_role("alert")).to_contain_text("token is not known")
    assert held
    _enter(page, OPERATOR)
    expect(page.get_by_text("2 listed")).to_be_visible()
    with page.expect_response(lambda answer: answer.status == 401):
        held[0].continue_()
    page.wait_for_timeout(500)
    expect(page.get_by_text("2 listed")).to_be_visible()
    expect(page.get_by_role("heading", name="A token is needed")).to_have_count(0)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Autopilot]:
    """Share one set-up among tests that change nothing in it."""
    found = begin(tmp_path_factory.mktemp("late"))
    found.until(lambda: all(row["trusted"] for row in found.tenants().values()))
    yield found
    end(found)


def test_charts_are_created_again_for_another_tenant(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address, "#/tenant?node=n&cgroup=/t/kv")
    expect(page.get_by_role("heading", name="/t/kv")).to_be_visible()
    expect(page.locator(CHARTS).first).to_be_visible()
    page.wait_for_timeout(1000)
    page.evaluate(f"document.querySelectorAll('{CHARTS}').forEach((one) => (one.mark = 1))")
    marked = f"[...document.querySelectorAll('{CHARTS}')].filter((one) => one.mark).length"
    # The next interval updates the existing charts.
    shared.pass_intervals(5)
    before = page.locator(CHARTS).count()
    assert before >= 5
    # The chart of curves is the exception: if another policy is best by now, that one stands out.
    assert page.evaluate(marked) >= before - 1
    page.evaluate("location.hash = '#/tenant?node=n&cgroup=/t/loop'")
    expect(page.get_by_role("heading", name="/t/loop")).to_be_visible()
    expect(page.locator(CHARTS).first).to_be_visible()
    assert page.evaluate(marked) == 0


def _shorter(route: Route, rows: list[dict[str, Any]], known: list[int]) -> None:
    """Answer a request for tenants from the first `known[0]` rows."""
    query = dict(
        part.split("=") for part in route.request.url.split("?", 1)[1].split("&") if "=" in part
    )
    first, limit = int(query.get("offset", "0")), int(query["limit"])
    route.fulfill(
        status=200,
        headers={"X-Total-Count": str(known[0]), "Content-Type": "application/json"},
        body=json.dumps(rows[: known[0]][first : first + limit]),
    )


@pytest.mark.parametrize("left", [30, 3])
def test_a_scrolled_list_that_becomes_shorter_shows_its_rows(
    shared: Autopilot, open_page: Open, left: int
) -> None:
    one = shared.tenants()["/t/kv"]
    rows = [{**one, "cgroup": f"/many/{at:04}"} for at in range(ROWS)]
    known = [ROWS]
    page = open_page(shared.address, "#/consolidation")
    page.route("**/api/v1/tenants?*", lambda route: _shorter(route, rows, known))
    page.evaluate("location.hash = ''")
    expect(page.get_by_text(f"{ROWS} listed")).to_be_visible()
    view = page.get_by_role("region", name="Table of tenants")
    view.evaluate("(one) => one.scrollTo({ top: one.scrollHeight })")
    expect(page.get_by_role("link", name=f"/many/{ROWS - 1:04}")).to_be_visible()
    known[0] = left
    expect(page.get_by_text(f"{left} listed")).to_be_visible()
    expect(page.get_by_role("link", name=f"/many/{left - 1:04}")).to_be_visible()
    view.evaluate("(one) => one.scrollTo({ top: 0 })")
    expect(page.get_by_role("link", name="/many/0000")).to_be_visible()


def test_sums_and_rows_of_the_fleet_change_together(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address, "#/consolidation")
    held: list[Route] = []
    may_pass = [False]

    def hold(route: Route) -> None:
        if may_pass[0]:
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/v1/fleet", hold)
    page.evaluate("location.hash = ''")
    expect(page.get_by_text("0 listed")).to_be_visible()
    shared.pass_intervals(5)
    expect(page.get_by_text("0 listed")).to_be_visible()
    may_pass[0] = True
    held[0].continue_()
    expect(page.get_by_text("2 listed")).to_be_visible()
    expect(
        page.locator("dl > div")
        .filter(has_text="Tenants")
        .filter(has_text="pinned")
        .locator("dd")
        .first
    ).to_have_text("2")


def test_a_trial_is_shown_whatever_the_policies_are_called(
    shared: Autopilot, open_page: Open
) -> None:
    trial = {
        "started_s": 1.0, "ends_s": 2.0, "from_policy": "hyperbolic", "to_policy": "kernel_lru",
        "from_limit_bytes": 1, "to_limit_bytes": 1, "baseline_ops": 1.0, "predicted_ops": 1.0,
    }  # fmt: skip
    row = {**shared.tenants()["/t/kv"], "trial": trial}
    page = open_page(shared.address, "#/consolidation")
    page.route("**/api/v1/tenants?*", lambda route: _shorter(route, [row], [1]))
    page.evaluate("location.hash = ''")
    tag = page.locator("td .tag", has_text="trial")
    expect(tag).to_be_visible()
    inside = "(one) => one.getBoundingClientRect().right <= "
    inside += "one.closest('td').getBoundingClientRect().right"
    assert tag.evaluate(inside)
