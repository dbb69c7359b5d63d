# SPDX-License-Identifier: Apache-2.0
"""The words about a consolidation row never contradict its numbers or what the node does."""

import re

from drained_fleets import EVERYBODY, busy
from experiments.control_loop.instances import snapshot
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cachepilot.api.shapes.questions import LeastMemory
from cachepilot.cli.fleet.consolidate import _saved, _slos
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.plan.consolidation.consolidate import consolidate
from cachepilot.plan.problem.config import Config
from cachepilot.sizes import human_bytes


def _check(row: LeastMemory) -> None:
    more = human_bytes(abs(row.least_bytes - row.limit_bytes))
    told = re.findall(r"(\S+ \S+) (more|less)", row.note)
    if row.known and row.kept:
        sign = "more" if row.least_bytes > row.limit_bytes else "less"
        assert told == ([(more, sign)] if row.least_bytes != row.limit_bytes else [])
        assert (_slos(row).plain == "to be met") is (row.has_slo and sign == "less")
    else:
        assert told == []
        assert row.least_bytes == row.limit_bytes
        assert row.more_of_this_kind == 0
    assert _saved(row.limit_bytes - row.least_bytes).startswith("lacks") is (
        row.least_bytes > row.limit_bytes
    )


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 6), st.floats(0.3, 1.0), st.floats(0.01, 0.9))
@example(2, 5, 0.9, 0.05)
@example(52, 5, 0.9, 0.05)
def test_no_row_contradicts_its_numbers(seed: int, tenants: int, share: float, hits: float) -> None:
    seen = busy(snapshot(seed, tenants, policies=2), share)
    asked = Objectives((Objective("/t00001", hit_ratio=hits), Objective("*")))
    for row in consolidate([seen], asked, Config()).tenants:
        _check(LeastMemory.of(row))
        if not row.has_slo:
            assert row.least_bytes <= row.limit_bytes, "what it does now it does with what it has"


def test_a_busy_device_still_lets_memory_go() -> None:
    saved = 0
    for seed in range(12):
        seen = busy(snapshot(seed, 4, policies=2), 0.5)
        rows = consolidate([seen], EVERYBODY, Config()).tenants
        assert all(row.kept for row in rows)
        saved += sum(row.limit_bytes > row.least_bytes for row in rows)
    assert saved > 12
