# SPDX-License-Identifier: Apache-2.0
"""Commands that pin, revert, undo and apply what-ifs, against a real server on loopback."""

import json
import re

import pytest
from cli_runs import Run, own, run, service
from fake_service import FakeService, tenant

from cachepilot import cli
from cachepilot.api.shapes.changes import ChangeDetail
from cachepilot.api.shapes.questions import Pin, StatedChange
from cachepilot.errors import ConflictError

__all__ = ["own", "run", "service"]
"""Imported fixtures."""


def test_pins(run: Run, own: str, service: FakeService) -> None:
    status, out, _ = run(own, "pin", "web", "--policy", "lfu", "--limit", "64MiB")
    assert (status, out) == (0, "/web: policy lfu, limit 64 MiB until it is unpinned\n")
    assert service.pins == [Pin(cgroup="/web", policy="lfu", limit_bytes=64 << 20)]
    assert run(own, "unpin", "web", "--json")[0] == 0 and service.pins == []


@pytest.mark.parametrize(
    ("size", "limit_bytes"), [("16384pages", 64 << 20), ("5%", 13107 * 4096), ("1GiB", 1 << 30)]
)
def test_a_pinned_size_has_a_unit(
    run: Run, own: str, service: FakeService, size: str, limit_bytes: int
) -> None:
    assert run(own, "pin", "/db", "--limit", size)[0] == 0
    assert [pin.limit_bytes for pin in service.pins] == [limit_bytes]


@pytest.mark.parametrize("pinned", [("policy",), ("limit",), ("policy", "limit")])
def test_status_marks_what_is_pinned(
    run: Run, own: str, service: FakeService, pinned: tuple[str, ...]
) -> None:
    known = {"policy": ("pinned_policy", "lfu"), "limit": ("pinned_limit_bytes", 64 << 20)}
    row = tenant("/db", "lfu", 64).model_copy(update=dict(known[one] for one in pinned))
    service.all_tenants = [row]
    out = run(own, "status", "-o", "wide")[1]
    assert ("lfu (pinned)" in out) == ("policy" in pinned)
    assert ("64 MiB (pinned)" in out) == ("limit" in pinned)


@pytest.mark.parametrize(
    ("least_mib", "told"),
    [
        (1, "floor 32 MiB (protected; a pin may go down to 1 MiB)"),
        (32, "floor 32 MiB (what cannot be reclaimed, and a margin)"),
        (None, "floor 32 MiB why:"),
    ],
)
def test_floors_are_shown_by_what_they_are(
    run: Run, own: str, service: FakeService, least_mib: int | None, told: str
) -> None:
    least = None if least_mib is None else least_mib << 20
    row = tenant("/db", "lfu", 64).model_copy(update={"least_limit_bytes": least})
    service.all_tenants = [row]
    assert told in " ".join(run(own, "explain", "/db")[1].split())
    rows = run(own, "status", "-o", "wide")[1].splitlines()
    assert any("floor" in one and "least limit" in one for one in rows)
    shown = r"32 MiB +-" if least_mib is None else rf"32 MiB +{least_mib} MiB"
    assert any(re.search(shown, one) for one in rows)


@pytest.mark.parametrize("is_json", [False, True])
def test_a_pin_says_that_a_node_is_stale(
    run: Run, own: str, service: FakeService, is_json: bool
) -> None:
    row = tenant("/db", "lfu", 64).model_copy(update={"stale": True})
    service.all_tenants = [row, tenant("/db", "lfu", 64, on="beta")]
    flags = ["--json"] if is_json else []
    status, out, err = run(own, "pin", "/db", "--policy", "lfu", *flags)
    assert status == 0 and len(service.pins) == 1
    assert err == (
        "alpha is stale: what it does now is not known; the pin takes effect there once its agent "
        "sends again\n"
    )
    assert not is_json or json.loads(out)["policy"] == "lfu"
    assert run(own, "pin", "/db", "--policy", "lfu", "--node", "beta", *flags)[2] == ""


def test_a_tenant_that_ends_while_it_is_pinned_is_named(
    run: Run, own: str, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [service.all_tenants, []]
    monkeypatch.setattr(service, "tenants", lambda _=None: answers.pop(0) if answers else [])
    status, _, err = run(own, "pin", "/db", "--limit", "5%")
    assert status == cli.EXIT_BAD_INPUT and not service.pins
    assert err == "cachepilot: error: no tenant /db any more (allowed: one that is there)\n"


def test_a_pin_that_misses_an_slo_needs_yes(run: Run, own: str, service: FakeService) -> None:
    status, out, err = run(own, "pin", "/db", "--limit", "8MiB")
    assert (status, out, service.pins) == (cli.EXIT_BAD_INPUT, "", [])
    assert "5,000 ops/s asked, 1,650 predicted (allowed: with --yes)" in err
    status, out, err = run(own, "pin", "/db", "--limit", "8MiB", "--yes")
    assert status == 0 and "until it is unpinned" in out and "1,650 predicted" in err
    assert [pin.limit_bytes for pin in service.pins] == [8 << 20]


def test_the_last_change_is_undone(run: Run, own: str, service: FakeService) -> None:
    assert "no change of objectives or pins" in run(own, "undo")[2]
    run(own, "pin", "/db", "--policy", "lfu")
    assert run(own, "undo", "--dry-run")[1].startswith("would be undone: pin /db (")
    assert len(service.pins) == 1
    assert run(own, "undo")[1].startswith("undone: pin /db (") and service.pins == []


def test_an_undo_or_revert_that_misses_an_slo_needs_yes(
    run: Run, own: str, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Pin(cgroup="/db", node="alpha", limit_bytes=8 << 20)
    service.pins = [small, Pin(cgroup="/db", policy="lfu")]
    status, _, err = run(own, "undo")
    assert status == cli.EXIT_BAD_INPUT and len(service.pins) == 2
    assert "undo 2 (pin /db): SLO throughput_ops would be missed" in err and "--yes" in err
    status, _, err = run(own, "undo", "--yes")
    assert status == 0 and "1,650 predicted" in err and service.pins == [small]
    row = service.past.change(2).change.model_copy(update={"from_limit_bytes": 8 << 20})
    told = ChangeDetail(change=row, evidence=None)
    monkeypatch.setattr(service.past, "change", lambda number: told)
    assert run(own, "revert", "2")[0] == cli.EXIT_BAD_INPUT and service.pins == [small]
    assert run(own, "revert", "2", "--yes")[0] == 0 and len(service.pins) == 2


def test_an_undo_of_a_change_that_is_not_the_last_is_not_asked(
    run: Run, own: str, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.pins = [Pin(cgroup="/db", policy="lfu")]
    last = StatedChange(change=9, time_s=1.0, what="pin /db")
    monkeypatch.setattr(service, "last_change", lambda: last)
    calls: list[bool] = []

    def undo(change: int | None, accept_missed_slos: bool = False) -> StatedChange:
        calls.append(accept_missed_slos)
        raise ConflictError("undo: the last change is 10 by now: pin /db")

    monkeypatch.setattr(service, "undo", undo)
    status, _, err = run(own, "undo", "--yes")
    assert status == cli.EXIT_BAD_INPUT and "the last change is 10 by now" in err
    assert calls == [False]


def test_a_what_if_is_applied(run: Run, own: str, service: FakeService) -> None:
    asked = ("plan", "--what-if", "--node", "alpha", "--apply", "--limit")
    assert run(own, *asked, "/db=8MiB")[0] == cli.EXIT_BAD_INPUT and service.pins == []
    status, out, _ = run(own, *asked, "/db=256MiB")
    assert status == 0 and "held until 2096" in out and "cachepilot undo" in out
    assert [pin.limit_bytes for pin in service.pins] == [256 << 20]


def test_a_change_of_the_history_is_reverted(run: Run, own: str, service: FakeService) -> None:
    status, out, _ = run(own, "revert", "2")
    assert (status, out) == (0, "/db on alpha: limit 256 MiB until 2096-10-02 07:06:40 UTC\n")
    assert [pin.limit_bytes for pin in service.pins] == [256 << 20]
    held = json.loads(run(own, "revert", "2", "--json")[1])
    assert (held["cgroup"], held["limit_bytes"], held["until_s"]) == ("/db", 256 << 20, 4e9)
