# SPDX-License-Identifier: Apache-2.0
"""What the consolidation page shows for every kind of answer of the controller."""

from collections.abc import Sequence
from typing import Any

from autopilot_processes import Autopilot
from playwright.sync_api import Page, Route, expect

from cachepilot.plan.consolidation.consolidate import row_note

from .conftest import Open
from .test_accessibility import violations

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
                "why": "alpha has room", "peak_bytes": 240 * MIB, "peak_s": 1.8e9, "cpus": 0.25,
                "need_bytes": 80 * MIB,
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
        "/kept": ["needs 16 MiB more", "predicted to need more memory", "3"],
        "/beyond": ["0", "predicted to be unattainable", "3"],
        "/dark": ["0", "unknown", NONE],
    }
    row = page.locator("tbody tr").filter(has_text="/kept")
    expect(row.locator("td").last).to_have_text("to be sure of its SLOs takes 16 MiB more")
    figure = page.locator("dl > div").filter(has_text="Unattainable")
    expect(figure.locator("dd").first).to_have_text("1")
    expect(figure).to_contain_text("2 unknown")
    expect(page.get_by_text("None: no node's tenants fit on the others.")).to_be_visible()


def test_a_drain_shows_which_tenants_move_where_and_at_what_cost(
    shared: Autopilot, open_page: Open
) -> None:
    page = _show(shared, open_page, nodes=3, drains=DRAINS)
    story = page.get_by_role("article", name="Drain beta")
    expect(story.get_by_role("heading")).to_contain_text("1. beta frees 512 MiB")
    expect(story.get_by_role("heading")).to_contain_text("predicted")
    cells = story.locator("tbody td").all_inner_texts()
    told = [cell.strip() for cell in cells]
    assert told[1].startswith("80 MiB, 240 MiB at ")
    told[1] = told[1].partition(",")[0]
    assert told == [
        "alpha", "80 MiB", "96 MiB", "0.25", "lfu", "64 MiB", "8 s", "4,200", "alpha has room",
    ]  # fmt: skip
    expect(page.get_by_role("article", name="Drain gamma")).to_contain_text("It has no tenants.")


SHORT = "the tenants of beta needed 64 MiB more than it has at 08:15 UTC a day ago"


def _spread(shared: Autopilot, open_page: Open, found: dict[str, Any], status: int = 200) -> Page:
    """Open the page with `found` as the answer of what is to be spread."""
    page = open_page(shared.address)
    page.route(
        "**/api/v1/consolidation/spread", lambda route: route.fulfill(json=found, status=status)
    )
    page.evaluate("location.hash = '#/consolidation'")
    expect(page.get_by_role("heading", name="Nodes without room")).to_be_visible()
    return page


def test_who_leaves_a_node_without_room_is_told_with_what_the_node_lacks(
    shared: Autopilot, open_page: Open
) -> None:
    drain = {**DRAINS[0], "freed_bytes": 0, "why": SHORT}
    found = {"drains": [drain], "notes": ["a day ago counts"], "left": {"gamma": "it needs CPUs"}}
    page = _spread(shared, open_page, found)
    story = page.get_by_role("article", name="Spread tenants of beta")
    expect(story.get_by_role("heading")).to_contain_text(f"1. beta {SHORT}; page caches are cold")
    expect(story.get_by_role("heading")).to_contain_text("8 s in all, predicted")
    expect(story.get_by_role("rowheader")).to_have_text("/web")
    assert story.locator("tbody td").first.inner_text().strip() == "alpha"
    panel = page.locator("section[aria-labelledby=short-title]")
    expect(panel.get_by_text("gamma stays short: it needs CPUs; no node has room")).to_be_visible()
    expect(panel.get_by_role("listitem")).to_have_text("a day ago counts")
    expect(panel.get_by_text("None: nobody")).to_have_count(0)
    assert violations(page) == []


def test_where_all_nodes_have_room_nobody_is_to_be_moved(
    shared: Autopilot, open_page: Open
) -> None:
    page = _spread(shared, open_page, {"drains": [], "notes": [], "left": {}})
    expect(page.get_by_text("None: no tenant has to move.")).to_be_visible()


def test_a_spread_that_cannot_be_planned_hides_nothing_else(
    shared: Autopilot, open_page: Open
) -> None:
    page = _spread(shared, open_page, {"error": "two snapshots of beta"}, status=422)
    panel = page.locator("section[aria-labelledby=short-title]")
    expect(panel.get_by_role("alert")).to_have_text("two snapshots of beta")
    expect(panel.get_by_text("None: nobody")).to_have_count(0)
    expect(page.get_by_role("heading", name="Least memory by tenant")).to_be_visible()


ROLLOUT: dict[str, Any] = {
    "id": 1, "spreads": False, "state": "turned back", "why": "/db missed its SLO",
    "rehearsals": [], "changes": ["/web goes to alpha, not to gamma"],
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


def test_measurements_of_a_rollout_are_marked_apart_from_predictions(
    shared: Autopilot, open_page: Open
) -> None:
    page = open_page(shared.address)
    page.route("**/api/v1/consolidation/rollout", lambda route: route.fulfill(json=ROLLOUT))
    page.evaluate("location.hash = '#/consolidation'")
    panel = page.locator("section[aria-labelledby=rollout-title]")
    expect(panel).to_contain_text("measured: turned back, /db missed its SLO")
    told = [cell.strip() for cell in panel.locator("tbody td").all_inner_texts()]
    assert told == [
        "/web to alpha", "undone", "throughput_ops", "5,000", "3,100", "2 of 15", "missed",
    ]  # fmt: skip
    expect(panel.get_by_role("listitem")).to_have_text("/web goes to alpha, not to gamma")
    expect(page.locator("section[aria-labelledby=rehearsals-title]")).to_have_count(0)
    expect(panel.get_by_role("heading")).to_have_text("The last rollout")


def test_a_rollout_that_spreads_is_called_so(shared: Autopilot, open_page: Open) -> None:
    page = open_page(shared.address)
    found = ROLLOUT | {"spreads": True}
    page.route("**/api/v1/consolidation/rollout", lambda route: route.fulfill(json=found))
    page.evaluate("location.hash = '#/consolidation'")
    heading = page.get_by_role("heading", name="The last rollout, which spreads tenants")
    expect(heading).to_be_visible()


def _rehearsed(cgroup: str, **more: Any) -> dict[str, Any]:
    found = {
        "cgroup": cgroup, "node": "beta", "to_node": "alpha", "limit_bytes": 96 * MIB,
        "predicted_ops": 4200.0, "before_ops": 5000.0, "kind": "throughput_ops", "target": 4000.0,
        "after_ops": 4100.0, "windows": 3, "met": 3, "verdict": "open", "short": None,
        "least_bytes": None, "until_s": None,
    }  # fmt: skip
    return found | more


def _rehearsal(node: str, state: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "node": node, "state": state, "since_s": None, "begun_s": None, "ready_s": None,
        "over_s": None, "left_s": None, "why": "", "tenants": [],
    }  # fmt: skip
    return found | more


STAYS = {"node": "alpha", "to_node": None, "limit_bytes": None, "predicted_ops": None}
BEGUN_S = 1_790_000_000.0


def _rehearsals(shared: Autopilot, open_page: Open, *found: dict[str, Any]) -> Page:
    """Open the page during a rollout whose rehearsals are `found`."""
    page = open_page(shared.address)
    running = ROLLOUT | {"state": "running", "moves": [], "why": "", "rehearsals": list(found)}
    page.route("**/api/v1/consolidation/rollout", lambda route: route.fulfill(json=running))
    page.evaluate("location.hash = '#/consolidation'")
    expect(page.get_by_role("heading", name="Rehearsals")).to_be_visible()
    return page


def _cells(page: Page, node: str) -> list[list[str]]:
    story = page.get_by_role("article", name=f"Rehearsal of {node}")
    rows = story.locator("tbody tr").all()
    return [[cell.strip() for cell in row.locator("th, td").all_inner_texts()] for row in rows]


def test_a_running_rehearsal_shows_its_times_and_each_tenant(
    shared: Autopilot, open_page: Open
) -> None:
    own = _rehearsed("/own", **STAYS, kind="keep", target=900.0, before_ops=1000.0, after_ops=980.0)
    slow = _rehearsed("/slow", kind="latency_p99_us", target=2000.0, predicted_ops=None)
    judged = _rehearsal(
        "beta", "judged", since_s=BEGUN_S, left_s=12.0, tenants=[_rehearsed("/web"), slow, own]
    )
    page = _rehearsals(shared, open_page, judged, _rehearsal("gamma", "not begun"))
    heading = page.get_by_role("article", name="Rehearsal of beta").get_by_role("heading")
    expect(heading).to_contain_text("beta since 2026-")
    expect(heading).to_contain_text("SLOs are judged with the planned memory")
    expect(heading).to_contain_text("12 s to go if all is met, predicted")
    assert _cells(page, "beta") == [
        ["/web", "alpha", "96 MiB", "4,200", "5,000", "4,100", "throughput 4,000 op/s", "3 of 3",
         "open"],
        ["/slow", "alpha", "96 MiB", NONE, "5,000", "4,100", "p99 latency 2.0 ms", "3 of 3",
         "open"],
        ["/own", "stays on alpha", NONE, NONE, "1,000", "980", "keeps 900 op/s", "3 of 3", "open"],
    ]  # fmt: skip
    assert violations(page) == []
    waits = page.get_by_role("article", name="Rehearsal of gamma")
    expect(waits.get_by_role("heading")).to_have_text("gamma not rehearsed yet")


def test_before_memory_is_taken_only_present_measurements_are_shown(
    shared: Autopilot, open_page: Open
) -> None:
    none = {"kind": None, "target": None, "after_ops": None, "windows": 0, "met": 0}
    told = _rehearsal("beta", "measuring", left_s=75.0, tenants=[_rehearsed("/web", **none)])
    page = _rehearsals(shared, open_page, told)
    heading = page.get_by_role("article", name="Rehearsal of beta").get_by_role("heading")
    expect(heading).to_contain_text("all tenants are measured with their present memory")
    expect(heading).to_contain_text("1 min 15 s to go")
    assert _cells(page, "beta") == [
        ["/web", "alpha", "96 MiB", "4,200", "5,000", NONE, NONE, NONE, NONE]
    ]


def test_a_missed_rehearsal_names_the_tenant_the_shortfall_and_the_time(
    shared: Autopilot, open_page: Open
) -> None:
    web = _rehearsed(
        "/web", after_ops=3600.0, windows=2, met=0, verdict="missed", short=0.1,
        least_bytes=112 * MIB, until_s=BEGUN_S + 86_400,
    )  # fmt: skip
    own = _rehearsed("/own", **STAYS, windows=5, met=3, verdict="missed")
    why = "in the rehearsal on beta /web meets throughput_ops 4000 in 0 of 2 windows"
    told = _rehearsal("beta", "missed", over_s=BEGUN_S, why=why, tenants=[web, own])
    page = _rehearsals(shared, open_page, told)
    story = page.get_by_role("article", name="Rehearsal of beta")
    expect(story.get_by_role("heading")).to_contain_text("missed at 2026-")
    expect(story.get_by_role("heading")).to_contain_text(why)
    lines = story.get_by_role("paragraph")
    expect(lines).to_have_count(2)
    expect(lines.first).to_contain_text("/web: 10.0% below its target, 0 of 2 intervals met; not")
    expect(lines.first).to_contain_text("tried with less than 112 MiB until 2026-")
    expect(lines.last).to_have_text("/own: 3 of 5 intervals met")
    assert [row[-1] for row in _cells(page, "beta")] == ["missed", "missed"]


def test_a_rehearsal_goes_on_while_it_is_looked_at_and_is_passed(
    shared: Autopilot, open_page: Open
) -> None:
    page = open_page(shared.address)
    going = _rehearsal("beta", "judged", since_s=BEGUN_S, left_s=2.0)
    passed = _rehearsal("beta", "passed", since_s=BEGUN_S, over_s=BEGUN_S + 30)
    answers = [going, going, passed]

    def answer(route: Route) -> None:
        one = answers.pop(0) if len(answers) > 1 else answers[0]
        route.fulfill(json=ROLLOUT | {"state": "running", "moves": [], "rehearsals": [one]})

    page.route("**/api/v1/consolidation/rollout", answer)
    page.evaluate("location.hash = '#/consolidation'")
    heading = page.get_by_role("article", name="Rehearsal of beta").get_by_role("heading")
    expect(heading).to_contain_text("passed at 2026-", timeout=9_000)


def test_one_node_alone_shows_that_there_is_no_other(shared: Autopilot, open_page: Open) -> None:
    page = _show(shared, open_page, nodes=1)
    expect(page.get_by_text("None: there is no other node")).to_be_visible()


def test_the_dots_of_notes_are_inside_of_the_panel(shared: Autopilot, open_page: Open) -> None:
    page = _show(shared, open_page, nodes=1)
    note = page.get_by_text("one note").bounding_box()
    panel = page.locator("section[aria-labelledby=least-title]").bounding_box()
    assert note is not None and panel is not None
    assert note["x"] - panel["x"] >= 24
