# SPDX-License-Identifier: Apache-2.0
"""The keyboard focus is never lost: an element that disappears passes it to one that remains."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from autopilot_processes import Autopilot
from playwright.sync_api import Locator, Page, expect

from .conftest import Open, begin, end

ACCESS = '[access]\noperator_tokens = "operator"\n'
OPERATOR = secrets.token_hex(32)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Autopilot]:
    """Start a controller that asks for a token."""
    folder: Path = tmp_path_factory.mktemp("focus")
    (folder / "operator").write_text(f"{OPERATOR}\n")
    found = begin(folder, controller=ACCESS, token=OPERATOR)
    yield found
    end(found)


def _enter(guarded: Autopilot, open_page: Open) -> Page:
    page = open_page(guarded.address)
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type(OPERATOR)
    page.keyboard.press("Enter")
    expect(page.get_by_text("2 listed")).to_be_visible()
    return page


def _row(page: Page, cgroup: str) -> Locator:
    """Return a link in the table of tenants. Other tables of the page may have the same link."""
    return page.get_by_role("region", name="Table of tenants").get_by_role("link", name=cgroup)


def test_after_the_token_it_is_in_the_content(guarded: Autopilot, open_page: Open) -> None:
    page = _enter(guarded, open_page)
    expect(page.locator("main")).to_be_focused()


def test_another_page_begins_with_its_content(guarded: Autopilot, open_page: Open) -> None:
    page = _enter(guarded, open_page)
    _row(page, "/t/kv").press("Enter")
    expect(page.get_by_role("heading", name="/t/kv")).to_be_visible()
    expect(page.locator("main")).to_be_focused()
    page.get_by_role("link", name="Changes").press("Enter")
    expect(page.get_by_role("heading", name="Changes")).to_be_visible()
    expect(page.locator("main")).to_be_focused()


def test_a_button_that_disappears_passes_the_focus_to_its_panel(
    guarded: Autopilot, open_page: Open
) -> None:
    page = _enter(guarded, open_page)
    _row(page, "/t/loop").press("Enter")
    page.get_by_label("Policy", exact=True).select_option("mru")
    page.get_by_role("button", name="Pin", exact=True).first.press("Enter")
    unpin = page.get_by_role("button", name="Unpin")
    unpin.press("Enter")
    expect(unpin).to_have_count(0)
    expect(page.locator("section[aria-labelledby=pin-title]")).to_be_focused()
