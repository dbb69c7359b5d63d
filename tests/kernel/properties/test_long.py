# SPDX-License-Identifier: Apache-2.0
"""Long tests: minutes of swaps, kills and fio, and every case on the debug kernel.

CACHEPILOT_LONG_SECONDS shortens each of them, for development.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cachepilot.vm import Machine

MIB = 1 << 20
MACHINE = Machine(memory_bytes=1024 * MIB, disk_bytes=1024 * MIB)

RunGuest = Callable[[Machine, list[str]], Any]
Seconds = Callable[[int], int]
Finish = Callable[[str], Any]

pytestmark = pytest.mark.long


def run_long(run_guest: RunGuest, machine: Machine, case: str, how_long: int) -> str:
    """Run one case for `how_long` seconds, and return its detail."""
    machine = replace(machine, timeout_seconds=300 + 4 * how_long)
    arguments = ["--set", "long", "--only", case, "--seconds", str(how_long)]
    outcome = run_guest(machine, arguments)
    report = outcome.reports.get(("long", case))
    assert report is not None, f"the machine ended before the case did: {outcome.ending}"
    assert report.ok, report.detail
    assert not outcome.trouble
    return str(report.detail)


def test_swaps_for_a_minute_lose_nothing(run_guest: RunGuest, seconds: Seconds) -> None:
    print(run_long(run_guest, MACHINE, "swaps_under_load_lose_nothing", seconds(60)))


def test_agents_killed_for_a_minute_leave_old_or_new(run_guest: RunGuest, seconds: Seconds) -> None:
    case = "an_agent_killed_anywhere_leaves_old_or_new"
    print(run_long(run_guest, MACHINE, case, seconds(30)))


@pytest.mark.parametrize("cpus", [2, 4])
def test_ten_minutes_of_zipf_reads_with_lfu(
    run_guest: RunGuest, seconds: Seconds, cpus: int
) -> None:
    case = "fio_of_zipf_reads_over_five_times_the_cgroup"
    print(run_long(run_guest, replace(MACHINE, cpus=cpus), case, seconds(600)))


def test_ten_minutes_of_zipf_reads_with_each_published_policy(
    run_guest: RunGuest, seconds: Seconds
) -> None:
    print(run_long(run_guest, MACHINE, "published_policies_hit_like_ours", seconds(600)))


def test_every_case_on_the_debug_kernel(group: str, finish_debug: Finish) -> None:
    outcome = finish_debug(group)
    failed = {case: report.detail for case, report in outcome.reports.items() if not report.ok}
    assert not outcome.ending
    assert outcome.reports
    assert not outcome.trouble
    assert not failed


def test_ten_minutes_of_everything_on_the_debug_kernel(
    run_guest: RunGuest, finish_debug: Finish, seconds: Seconds
) -> None:
    assert finish_debug is not None
    machine = replace(MACHINE, kernel="debug", memory_bytes=1536 * MIB)
    print(run_long(run_guest, machine, "a_mix_of_everything", seconds(600)))
