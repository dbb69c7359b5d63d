# SPDX-License-Identifier: Apache-2.0
"""What the page of consolidation says of answers of every kind."""

from collections.abc import Sequence
from typing import Any

from autopilot_processes import Autopilot
from playwright.sync_api import Page, expect

from cachepilot.plan.consolidation.consolidate import row_note

from .conftest import Open

MIB = 1 << 20
NONE = "\N{EN DASH}"


def _row(cgroup: str, least: int, has_slo: bool, known: bool, kept: bool) -> dict[str, Any]:
    return {
        "node": "n", "cgroup": cgroup, "policy": "lfu", "least_policy": "lfu",
        "limit_bytes": 64 * MIB, "least_bytes": least * MIB, "more_of_this_kind": 3,
        "has_slo": has_slo, "known": known, "kept": kept,
        "note": row_note(64 * MIB, least * MIB, has_slo, kept, known),
    }  # fmt: skip


ROWS = [
    _row("/free", 32, has_slo=False, known=True, kept=True),
    _row("/blind", 64, has_slo=False, known=False, kept=False),
    _row("/kept", 80, has_slo=True, known=True, kept=True),
    _row("/beyond", 64, has_slo=True, known=True, kept=False),
    _row("/dark", 64, has_slo=True, known=False, kept=False),
]


DRAINS: list[dict[str, Any]] = [
    {
        "node": "beta", "freed_bytes": 512 * MIB,
        "moves": [
            {
                "cgroup": "/web", "from_node": "beta", "to_node": "alpha", "limit_bytes": 96 * MIB,
                "policy": "lfu", "predicted_ops": 4200.0, "cold_pages": 16384, "cold_s": 8.0,
                "why": "alpha has room", "peak_bytes": 240 * MIB, "peak_s": 1.8e9,
            }
        ],
    },
    {"node": "gamma", "freed_bytes": 256 * MIB, "moves": []},
]  # fmt: skip


def _show(
    shared: Autopilot, open_page: Open, nodes: int, drains: Sequence[dict[str, Any]] = ()
) -> Page:
    page = open_page(shared.address)
    found = {"nodes": nodes, "tenants": ROWS, "drains": drains, "notes": ["one note"]}
    page.route("**/api/v1/consolidation", lambda route: route.fulfill(json=found))
    page.evaluate("location.hash = '#/consolidation'")
    expect(page.get_by_role("link", name="/dark")).to_be_visible()
    return page


def test_only_what_is_asked_for_and_known_is_called_kept_or_not(
    shared: Autopilot, open_page: Open
) -> None:
    page = _show(shared, open_page, nodes=2)
    told = {}
    for row in page.locator("section[aria-labelledby=least-title] tbody tr").all():
        cells = row.locator("td").all_inner_texts()
        told[row.locator("th").inner_text().strip()] = [text.strip() for text in cells[-4:-1]]
    assert told == {
        "/free": ["32 MiB", NONE, "3"],
        "/blind": ["0", NONE, NONE],
        "/kept": ["needs 16 MiB more", "with more memory", "3"],
        "/beyond": ["0", "out of reach", "3"],
        "/dark": ["0", "not known", NONE],
    }
    row = page.locator("tbody tr").filter(has_text="/kept")
    expect(row.locator("td").last).to_have_text("to be sure of its SLOs takes 16 MiB more")
    figure = page.locator("dl > div").filter(has_text="Out of reach")
    expect(figure.locator("dd").first).to_have_text("1")
    expect(figure).to_contain_text("2 not known")
    expect(page.get_by_text("None: no node's tenants fit on the others.")).to_be_visible()


def test_a_drain_tells_who_moves_why_there_at_what_cost(shared: Autopilot, open_page: Open) -> None:
    page = _show(shared, open_page, nodes=3, drains=DRAINS)
    story = page.get_by_role("article", name="Drain beta")
    expect(story.get_by_role("heading")).to_contain_text("1. beta frees 512 MiB")
    expect(story.get_by_role("heading")).to_contain_text("predicted")
    cells = story.locator("tbody td").all_inner_texts()
    told = [cell.strip() for cell in cells]
    assert told[1].startswith("96 MiB, 240 MiB at ")
    told[1] = told[1].partition(",")[0]
    assert told == ["alpha", "96 MiB", "lfu", "64 MiB", "8 s", "4,200", "alpha has room"]
    expect(page.get_by_role("article", name="Drain gamma")).to_contain_text("It has no tenants.")


ROLLOUT = {
    "id": 1, "state": "turned back", "why": "/db missed its SLO",
    "moves": [
        {
            "move": DRAINS[0]["moves"][0], "state": "returned",
            "checks": [
                {
                    "cgroup": "/db", "kind": "throughput_ops", "before_ops": 5000.0,
                    "after_ops": 3100.0, "windows": 15, "met": 2, "verdict": "missed",
                }
            ],
        }
    ],
}  # fmt: skip


def test_what_a_rollout_measured_is_told_apart_from_what_is_predicted(
    shared: Autopilot, open_page: Open
) -> None:
    page = open_page(shared.address)
    page.route("**/api/v1/consolidation/rollout", lambda route: route.fulfill(json=ROLLOUT))
    page.evaluate("location.hash = '#/consolidation'")
    panel = page.locator("section[aria-labelledby=rollout-title]")
    expect(panel).to_contain_text("measured: turned back, /db missed its SLO")
    told = [cell.strip() for cell in panel.locator("tbody td").all_inner_texts()]
    assert told == [
        "/web to alpha", "returned", "throughput_ops", "5,000", "3,100", "2 of 15", "missed",
    ]  # fmt: skip


def test_where_there_is_one_node_no_other_can_be_short(shared: Autopilot, open_page: Open) -> None:
    page = _show(shared, open_page, nodes=1)
    expect(page.get_by_text("None: there is no other node")).to_be_visible()


def test_the_dots_of_notes_are_inside_of_the_panel(shared: Autopilot, open_page: Open) -> None:
    page = _show(shared, open_page, nodes=1)
    note = page.get_by_text("one note").bounding_box()
    panel = page.locator("section[aria-labelledby=least-title]").bounding_box()
    assert note is not None and panel is not None
    assert note["x"] - panel["x"] >= 24
