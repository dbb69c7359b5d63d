# SPDX-License-Identifier: Apache-2.0
"""Properties of the patched kernel, each a case of the program in `guest`, in every machine."""

from collections.abc import Callable
from typing import Any

GuestCase = tuple[str, str, str] | None
Finish = Callable[[str], Any]


def test_property(guest_case: GuestCase, finish: Finish) -> None:
    assert guest_case is not None, "the program of tests/kernel/guest is not built"
    boot, group, case = guest_case
    outcome = finish(boot)
    report = outcome.reports.get((group, case))
    assert report is not None, f"the machine ended before this case: {outcome.ending}"
    assert report.ok, report.detail


def test_kernel_log_is_clean(boot: str, finish: Finish) -> None:
    outcome = finish(boot)
    assert outcome.reports, outcome.ending
    assert not outcome.trouble
