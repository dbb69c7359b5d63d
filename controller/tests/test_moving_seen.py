# SPDX-License-Identifier: Apache-2.0
"""What a rollout sees of a tenant: its throughput in an interval, which may be none."""

from collections.abc import Iterator

import pytest

from cachepilot.domain.moving import KEEP, Check, Verdict
from cachepilot.domain.objectives.objective import Counter, Indicator, Objective, Objectives
from cachepilot.fleet.moving.judging import WINDOWS, take
from cachepilot.fleet.moving.seen.looking import _node_seen
from cachepilot.fleet.moving.seen.observation import TenantSeen
from cachepilot.node.collector import Collector
from cachepilot.node.shown.report import Report
from cachepilot.v1 import session_pb2 as wire

SLO = Objective("/a", throughput_ops=1.0)


def shown(
    *intervals: tuple[int, int], stated: Objective = SLO, scraped: Iterator[float] | None = None
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


@pytest.mark.parametrize("period_s", [1.0, 1.1, 3.0])
def test_a_counter_that_was_not_scraped_anew_tells_of_no_pause(period_s: float) -> None:
    """It does 100 op/s all the time. A round of scraping takes longer than an interval."""
    indicator = Indicator(Counter.PROMETHEUS, "http://127.0.0.1:1/metrics", "ops_total")
    stated = Objective("/a", throughput_ops=90.0, indicator=indicator)
    rounds = [100 * period_s * (second // period_s) for second in range(120)]
    check = Check("/a", "throughput_ops", 90.0, 100.0)
    for one in shown(*[(1000, 0)] * 119, stated=stated, scraped=iter(rounds)):
        check = take(check, one.slos[0].met, one.ops)
    assert check.verdict is Verdict.MET, (check.met, check.windows)
