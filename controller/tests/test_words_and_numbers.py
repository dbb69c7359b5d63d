# SPDX-License-Identifier: Apache-2.0
"""Displayed words agree with the numbers beside them, whatever the numbers are."""

import re
from dataclasses import replace
from io import StringIO

from fake_service import CURVES, MIB, TRIAL, decision, node, tenant
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from cachepilot.api.shapes.detail import TenantDetail
from cachepilot.api.shapes.questions import Consolidation, LeastMemory
from cachepilot.api.shapes.views import SloView, TenantView
from cachepilot.api.stale import stale_tenant
from cachepilot.api.views import policies_of, prediction_error
from cachepilot.cli.fleet import consolidate, explain, history, status_table
from cachepilot.cli.terminal import formats
from cachepilot.domain.decisions import Event, Reading, against_prediction, event_word
from cachepilot.domain.moving import MoveState
from cachepilot.domain.planned import Held, SloState
from cachepilot.domain.recorded import RecordedDecision
from cachepilot.domain.slos import SloStatus
from cachepilot.node.shown.report import Published
from cachepilot.node.shown.slo_windows import is_met
from cachepilot.plan.consolidation.consolidate import KEPT, row_note
from cachepilot.plan.explanation import Explanation, RankedPolicy
from cachepilot.readable import numbers
from cachepilot.sizes import human_bytes

WIDTH = 400
RECORDED = RecordedDecision(
    *(1, 0.0, "n", "/a", 1, "kept", "lfu", "lfu", 4096, 8192),
    *(None, None, None, None, None, None, "because"),
)
KINDS = ("throughput_ops", "latency_p99_us", "hit_ratio")
POLICIES = ("default", "lfu", "mru", "s3fifo")
STATES = sorted(map(str, SloState))
NUMBER = r"([-\d,.]+)(?:%| ops/s| us)?"


def text(*parts: RenderableType) -> str:
    """Return what a terminal shows, without colours."""
    out = StringIO()
    console = Console(file=out, width=WIDTH, color_system=None, markup=False, highlight=False)
    for part in parts:
        console.print(part)
    return out.getvalue()


def value_of(shown: str) -> float:
    return float(shown.replace(",", ""))


@st.composite
def near(draw: st.DrawFn, target: float, most: float) -> float | None:
    """Draw a reading: None, far from a target, or so near that rounding hides the difference."""
    if draw(st.integers(0, 5)) == 0:
        return None
    off = draw(st.sampled_from((0.0, 1e-7, 1e-4, 4e-4, 2e-3, 0.01, 0.3, 0.9)))
    sign = draw(st.sampled_from((1.0, -1.0)))
    return min(max(target * (1 + sign * off), 0.0), most)


@st.composite
def slos(draw: st.DrawFn, kind: str | None = None) -> SloView:
    kind = kind or draw(st.sampled_from(KINDS))
    most = 1.0 if kind == "hit_ratio" else 1e9
    target = draw(st.floats(0.01, 0.999) if kind == "hit_ratio" else st.floats(1.0, 1e6))
    target = draw(st.sampled_from((target, float(f"{target:.3g}"))))
    measured, predicted, attainable = (draw(near(target, most)) for _ in range(3))
    met = None if measured is None else is_met(kind, measured, target)
    share = draw(st.none() | st.floats(0, 1))
    state = draw(st.sampled_from(STATES))
    status = SloStatus(
        kind, target, measured, predicted, attainable, None, state, met, share, "because"
    )
    return SloView.of(status)


@st.composite
def rankings(draw: st.DrawFn) -> tuple[RankedPolicy, ...]:
    ratios = draw(st.lists(st.sampled_from((0.1, 0.10004, 0.2, 0.9)), min_size=4, max_size=4))
    allowed = draw(st.lists(st.booleans(), min_size=4, max_size=4))
    rows = zip(POLICIES, ratios, allowed, strict=True)
    found = [RankedPolicy(policy, ratio, 0.01, may) for policy, ratio, may in rows]
    return tuple(sorted(found, key=lambda one: one.miss_ratio))


@st.composite
def details(draw: st.DrawFn) -> TenantDetail:
    present = draw(st.sampled_from(POLICIES))
    shown = draw(st.lists(st.sampled_from(KINDS), unique=True))
    held = [draw(slos(kind)) for kind in shown]
    ops = draw(st.none() | st.floats(0.1, 1e6))
    readings = {slo.kind: slo.measured for slo in held}
    row = tenant("/a", present, draw(st.integers(1, 4096))).model_copy(
        update={
            "slos": held,
            "throughput_ops": readings.get("throughput_ops", ops),
            "hit_ratio": readings.get("hit_ratio", draw(st.none() | st.floats(0, 1))),
            "trial": draw(st.sampled_from((None, TRIAL))),
            "trusted": draw(st.booleans()),
        }
    )
    predicted = draw(st.none() | st.floats(0.1, 1e6))
    ranking = draw(rankings())
    known = Explanation("/a", None, None, None, None, None, None, Held.NOT, ranking)
    best = next((one.policy for one in ranking if one.allowed), None)
    return TenantDetail(
        tenant=row,
        curves=CURVES,
        demand=None,
        predicted_miss_ratio=draw(st.none() | st.floats(0, 1)),
        predicted_ops=predicted,
        best_policy=best,
        why="because",
        needed_for_slo_bytes=draw(st.none() | st.integers(1, 4096).map(lambda one: one * MIB)),
        needed_policy=draw(st.sampled_from(POLICIES)),
        read_latency_total=[],
        policies=policies_of(known, present),
        prediction_error=prediction_error(predicted, row.throughput_ops),
    )


def check_slo(line: str, slo: SloView) -> None:
    found = re.match(rf"SLO {slo.kind} {NUMBER}: ([a-z ]+); measured {NUMBER},", line)
    assert found, line
    target, word, measured = found.groups()
    if measured == "-":
        assert word == "not measured"
        return
    told = is_met(slo.kind, value_of(measured), value_of(target))
    assert word == ("met" if told else "missed"), line


def check_needed(detail: TenantDetail, shown: str) -> None:
    states = {slo.state for slo in detail.tenant.slos}
    is_lost = detail.needed_for_slo_bytes is None and "unattainable" in states
    if is_lost:
        assert "no memory of this node meets every SLO" in shown
        [line] = re.findall(r"needed, .*", shown)
        assert ("last predicted" in line) is ("last predicted to be unattainable" in shown)
    elif "unknown" in states or (states and detail.predicted_miss_ratio is None):
        assert "memory needed: unknown" in shown and "needed, predicted" not in shown
    lost = [slo for slo in detail.tenant.slos if slo.state == "unattainable"]
    earlier = [slo for slo in lost if slo.predicted is None]
    assert len(re.findall("last predicted to be unattainable", shown)) == len(earlier)


def check_ranking(detail: TenantDetail, shown: str) -> None:
    rows = re.findall(
        r"^ (\w+) +([\d.]+) +[\d.]+ *(.*?) *$", shown.rsplit("of memory", maxsplit=1)[-1], re.M
    )
    assert [name for name, *_ in rows] == [one.policy for one in detail.policies]
    ratios = [float(ratio) for _, ratio, _ in rows]
    allowed = {one.policy for one in detail.policies if one.allowed}
    for name, ratio, note in rows:
        words = note.split(", ")
        assert ("in use" in words) is (name == detail.tenant.policy)
        assert ("not allowed" in words) is (name not in allowed)
        if "best" in words:
            assert float(ratio) == min(ratios) and name == rows[0][0]
        if {"best", "best allowed"} & {*words}:
            least = min(float(other) for it, other, _ in rows if it in allowed)
            assert float(ratio) == least and name in allowed


@settings(max_examples=150, deadline=None)
@given(details())
def test_the_words_of_explain_agree_with_its_numbers(detail: TenantDetail) -> None:
    shown = text(*explain.explained(detail, 100))
    lines = [line for line in shown.splitlines() if line.startswith("SLO ")]
    assert len(lines) == len(detail.tenant.slos)
    for line, slo in zip(lines, detail.tenant.slos, strict=True):
        check_slo(line, slo)
        if slo.state == "unknown" or slo.predicted is None:
            assert "predicted to be met:" not in line
        assert ("predicted to be met" in line) is (slo.state in ("met", "approaching")), line
    check_ranking(detail, shown)
    row = re.search(r"operations/s \(\w+\) +(\S+) +(\S+) +(\S+)", shown)
    assert row
    predicted, measured, off = row.groups()
    if "-" in (predicted, measured):
        assert off == "-"
    else:
        told = value_of(predicted) / value_of(measured) - 1
        assert abs(float(off.rstrip("%").replace(",", "")) / 100 - told) <= 0.02 * (1 + abs(told))
    is_missed = any(slo.met is False for slo in detail.tenant.slos)
    assert "and misses one" not in shown or is_missed
    check_needed(detail, shown)


def check_status(row: TenantView, shown: str) -> None:
    for slo in row.slos:
        [line] = [
            one for one in shown.splitlines() if f" {status_table.SLO_NAMES[slo.kind]} " in one
        ]
        now, *_ = line.split(", predicted to be")
        assert ("missed" in now) is (slo.met is False)
        assert ("not measured" in now) is (slo.met is None and not row.stale)
        assert ("stale" in now) is row.stale


@settings(max_examples=80, deadline=None)
@given(details(), st.booleans())
def test_the_words_of_status_agree_with_its_numbers(detail: TenantDetail, stale: bool) -> None:
    row = detail.tenant
    if stale:
        row = stale_tenant(row, "stale: no snapshot")
        assert row.throughput_ops is None and all(slo.measured is None for slo in row.slos)
    shown = text(status_table.tenant_table([node("alpha")], [row], WIDTH))
    cells = text(*map(status_table.slo_text, row.slos))
    check_status(row, cells)
    assert ("stale" in shown) is stale


@given(st.lists(slos(), min_size=1))
def test_an_slo_is_judged_by_the_number_that_is_shown(found: list[SloView]) -> None:
    for slo in found:
        words = {True: "met", False: "missed", None: "not measured"}
        assert slo.verdict == words[slo.met]
        assert (slo.measured is None) is (slo.met is None)


@given(st.floats(0.001, 1e9), st.floats(0.001, 1e9) | st.floats(-1e-6, 1e-6))
def test_numbers_beside_each_other_are_in_their_order(first: float, other: float) -> None:
    other = first * (1 + other) if abs(other) <= 1e-6 else other
    shown, beside = numbers((first, other))
    assert shown is not None and beside is not None
    if abs(first - other) > 1e-9:
        assert (value_of(shown) < value_of(beside)) is (first < other)


@given(st.none() | st.floats(0.01, 1e6), st.none() | st.floats(0, 1e6))
def test_the_words_of_a_decision_agree_with_its_numbers(
    predicted: float | None, measured: float | None
) -> None:
    said = against_prediction(Reading(ops=predicted), Reading(ops=measured))
    if predicted is None or measured is None:
        assert said == ""
    elif "as predicted" in said:
        assert abs(measured / predicted - 1) <= 0.005 + 1e-9
    else:
        assert ("less than predicted" in said) is (measured < predicted)
        assert ("more than predicted" in said) is (measured > predicted)


@given(
    st.integers(1, 1 << 20), st.integers(1, 1 << 20), st.booleans(), st.booleans(), st.booleans()
)
def test_the_words_about_the_least_memory_agree_with_its_row(
    limit: int, least: int, promised: bool, kept: bool, known: bool
) -> None:
    limit, least = 4096 * limit, 4096 * least
    note = row_note(limit, least, promised, kept and known, known)
    row = LeastMemory(
        node="n", cgroup="/a", policy="lfu", limit_bytes=limit, least_policy="lfu",
        least_bytes=least, has_slo=promised, known=known, kept=kept, more_of_this_kind=0,
        note=note,
    )  # fmt: skip
    if known and kept:
        assert (f" {human_bytes(abs(limit - least))} more" in note) is (least > limit)
        assert (f"{human_bytes(abs(limit - least))} less" in note) is (least < limit)
    else:
        assert "more" not in note and " less" not in note
    assert (KEPT in note) is (not promised and not (known and kept and least > limit))
    found = Consolidation(nodes=1, tenants=[row], drains=[], notes=[])
    shown = text(*consolidate._parts(found))
    assert ("lacks" in shown) is (least > limit)
    if known and not kept:
        assert ("unattainable" if promised else "no SLO: slower") in shown


def test_people_read_one_word_for_the_state_of_a_change() -> None:
    """`kept` and `reverted` are only stored and sent: SLOs are met, changes are confirmed."""
    assert (event_word("kept"), event_word("reverted")) == ("confirmed", "undone")
    assert (MoveState("kept").word, MoveState("returned").word) == ("confirmed", "undone")
    published = Published()
    published.note([replace(RECORDED, event="kept")])
    assert published.last["/a"].text == "confirmed: because"
    told = {*map(formats.predicted_state, STATES), *map(formats.short_state, STATES)}
    told |= set(map(event_word, Event)) | {one.word for one in MoveState}
    assert not told & {"kept", "reverted", "outbid", "held", "unmeasured"}


@given(st.none() | st.just("/a"), st.none() | st.just("n"))
def test_an_empty_history_says_whether_it_was_asked_for_a_part(
    tenant_asked: str | None, node_asked: str | None
) -> None:
    said = history.nothing_text({"tenant": tenant_asked, "node": node_asked})
    assert (said == "no changes yet") is (tenant_asked is None and node_asked is None)
    assert all(one in said for one in (tenant_asked, node_asked) if one)
    assert "yet" not in said or decision(1, "kept").why not in said
