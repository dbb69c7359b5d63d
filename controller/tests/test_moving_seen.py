# SPDX-License-Identifier: Apache-2.0
"""What a rollout sees of a tenant: its throughput in an interval, which may be none."""

import math
from collections.abc import Iterator
from itertools import accumulate

import pytest

from cachepilot.domain.moving import KEEP, Check, Verdict
from cachepilot.domain.objectives.objective import Counter, Indicator, Objective, Objectives
from cachepilot.fleet.moving.checks import taken
from cachepilot.fleet.moving.judging import WINDOWS, take
from cachepilot.fleet.moving.seen.looking import _node_seen
from cachepilot.fleet.moving.seen.observation import TenantSeen
from cachepilot.node.collector import Collector
from cachepilot.node.shown.report import Report
from cachepilot.sense.node_scrape import Scrape
from cachepilot.v1 import session_pb2 as wire

SLO = Objective("/a", throughput_ops=1.0)
INDICATOR = Indicator(Counter.PROMETHEUS, "http://127.0.0.1:1/metrics", "ops_total")
SCRAPED = Objective("/a", throughput_ops=90.0, indicator=INDICATOR)
EPSILON = 1e-9


def shown(
    *intervals: tuple[int, int], stated: Objective = SLO, scraped: Iterator[Scrape] | None = None
) -> list[TenantSeen]:
    """Return a tenant after intervals of a second, each with these accesses and read calls.

    `scraped` yields the application's counter at the end of each interval.
    """
    collector = Collector("n", lambda _: None if scraped is None else next(scraped))
    totals, found = wire.Counters(), []
    objectives = Objectives((stated,))
    for second, (accesses, calls) in enumerate([(0, 0), *intervals], 1):
        totals.accesses_total += accesses
        totals.read_calls_total += calls
        seen = wire.Snapshot(time_us=second * 1_000_000, budget_bytes=1 << 28)
        told = seen.tenants.add(cgroup="/a", cgroup_id=1, policy="default", limit_bytes=1 << 20)
        told.counters.CopyFrom(totals)
        report = Report(collector.collect(seen, 1, objectives), None, objectives, 1, "")
        found.append(_node_seen(report, "").tenants["/a"])
    return found[1:]


def _told(*intervals: tuple[int, int]) -> list[tuple[float | None, bool | None]]:
    return [(one.ops, one.slos[0].met) for one in shown(*intervals)]


def test_an_interval_with_accesses_and_no_operation_is_one_of_no_throughput() -> None:
    assert _told((8, 1), (8, 0), (0, 0), (8, 2)) == [
        (1.0, True), (0.0, False), (None, None), (2.0, True),
    ]  # fmt: skip


def test_operations_that_are_not_known_are_none() -> None:
    metric = Objective("/a", throughput_ops=1.0, indicator=Indicator(Counter.PROMETHEUS))
    (one,) = shown((8, 1), stated=metric)
    assert (one.ops, one.slos[0].met) == (None, None)


@pytest.mark.parametrize(("pause", "verdict"), [((8, 0), "missed"), ((0, 0), "met")])
def test_a_tenant_that_is_slower_does_not_keep_its_throughput(
    pause: tuple[int, int], verdict: str
) -> None:
    """It does one operation per second before, and one in every third second after."""
    check = Check("/a", KEEP, 0.9, 1.0)
    for one in shown(*[(8, 1), pause, pause] * 2 * WINDOWS):
        check = take(check, None, one.ops)
    assert check.verdict is Verdict(verdict)


def _scraped(*ops: float, published_s: float = 0.0, scraped_s: float = 1.0) -> list[TenantSeen]:
    """A tenant that does so many operations in each second, and what the application tells of it.

    The application publishes every `published_s`, or what it did until now; a round of scraping
    takes `scraped_s`.
    """
    done = [0.0, *accumulate(ops)]

    def rounds() -> Iterator[Scrape]:
        for second in range(len(ops) + 1):
            at_s = scraped_s * math.floor(second / scraped_s + EPSILON)
            told_s = at_s
            if published_s:
                told_s = published_s * math.floor(at_s / published_s + EPSILON)
            before = int(told_s)
            more = ops[before] * (told_s - before) if before < len(ops) else 0.0
            yield Scrape(done[before] + more, at_s)

    intervals = [(1000 if one else 0, 0) for one in ops]
    return shown(*intervals, stated=SCRAPED, scraped=rounds())


@pytest.mark.parametrize("scraped_s", [1.0, 1.05, 1.1, 3.0])
@pytest.mark.parametrize(("ops", "verdict"), [(100.0, Verdict.MET), (40.0, Verdict.MISSED)])
def test_a_slow_round_of_scraping_makes_no_tenant_faster_or_slower(
    scraped_s: float, ops: float, verdict: Verdict
) -> None:
    """90 op/s are asked for; a counter that was not scraped anew tells of no pause."""
    check = Check("/a", "throughput_ops", 90.0, 100.0)
    for one in _scraped(*[ops] * 119, scraped_s=scraped_s):
        check = take(check, one.slos[0].met, one.ops)
    assert check.verdict is verdict, (check.met, check.windows)
    assert check.after_ops == pytest.approx(ops)


@pytest.mark.parametrize("published_s", [2.0, 3.0, 6.0])
def test_an_application_that_publishes_rarely_is_judged_at_its_rate(published_s: float) -> None:
    """40 op/s where 90 are asked for: what a counter rises by is of all intervals before."""
    check = Check("/a", "throughput_ops", 90.0, 100.0)
    for one in _scraped(*[40.0] * 119, published_s=published_s):
        check = take(check, one.slos[0].met, one.ops)
    assert check.verdict is Verdict.MISSED
    assert check.after_ops == pytest.approx(40.0)


@pytest.mark.parametrize(("published_s", "verdict"), [(8.0, Verdict.MET), (9.0, Verdict.MISSED)])
def test_a_counter_that_rises_too_rarely_has_too_few_windows(
    published_s: float, verdict: Verdict
) -> None:
    """100 op/s where 90 are asked for."""
    checks: tuple[Check, ...] = (Check("/a", "throughput_ops", 90.0, 100.0),)
    warm = _scraped(*[100.0] * 150, published_s=published_s)[30:]
    for looks, one in enumerate(warm, 1):
        checks = taken(checks, {"/a": one}, looks, 30)
    assert [one.verdict for one in checks] == [verdict]


def test_a_scraped_tenant_that_is_slower_does_not_keep_its_throughput() -> None:
    """One operation a second before, one in three seconds after."""
    check = Check("/a", KEEP, 0.9, 1.0)
    for one in _scraped(*[1 / 3] * 119, published_s=3.0):
        check = take(check, None, one.ops)
    assert check.verdict is Verdict.MISSED


def test_an_hour_without_anything_is_no_part_of_what_was_done_after_it() -> None:
    busy, idle = [100.0] * 20, [0.0] * 3600
    told = [one.ops for one in _scraped(*busy, *idle, *busy)]
    assert told[1:20] == [pytest.approx(100.0)] * 19
    assert told[20:3620] == [None] * 3600
    assert told[3620:] == [pytest.approx(100.0)] * 20
