# SPDX-License-Identifier: Apache-2.0
"""Objectives as tables and as TOML: what is written is read back unchanged."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from cachepilot.domain.names import cgroup_pattern
from cachepilot.domain.objectives.file import objective_from, objectives_from, parse_objectives
from cachepilot.domain.objectives.objective import (
    Counter,
    Goal,
    Indicator,
    Mode,
    Objective,
    Objectives,
)
from cachepilot.domain.objectives.table import objective_table, objectives_document, objectives_toml
from cachepilot.domain.objectives.workload import workload_pattern
from cachepilot.errors import InputError
from cachepilot.sizes import Size

LEAST = Size("1%", share=Fraction(1, 100))
MOST = Size("0.5", share=Fraction(1, 2))
NUMBERS = st.floats(1e-6, 1e6) | st.integers(1, 10**6).map(float)


def _is_name(text: str) -> bool:
    try:
        if workload_pattern(text) is None:
            cgroup_pattern(text)
    except InputError:
        return False
    return True


OBJECTIVES = st.builds(
    Objective,
    pattern=st.text(min_size=1, max_size=8).filter(_is_name),
    throughput_ops=st.none() | NUMBERS,
    latency_p99_us=st.none() | NUMBERS,
    hit_ratio=st.none() | st.floats(0.001, 1.0),
    weight=NUMBERS,
    priority=st.integers(-1_000_000, 1_000_000),
    keep=st.floats(0, 1),
    memory_min=st.sampled_from([None, LEAST, Size("64MiB", pages=16384)]),
    memory_max=st.sampled_from([None, MOST, Size("64MiB", pages=16384)]),
    policies=st.sampled_from([(), ("s3fifo",), ("lfu", "mru")]),
    tasks=st.sampled_from([(), ("rocksdb:low", "backup*")]),
    cpus=st.none() | st.floats(0.001, 100),
    affinity=st.sampled_from([(), ("zone=a", "db-*")]),
    anti_affinity=st.sampled_from([(), ("/db/*",)]),
    movable=st.booleans(),
    mode=st.sampled_from(list(Mode)),
    indicator=st.sampled_from(
        [
            Indicator(),
            Indicator(Counter.ACCESSES),
            Indicator(Counter.PROMETHEUS, "http://[::1]:9100/metrics", 'reads_total{kind="get"}'),
        ]
    ),
)


@given(st.lists(OBJECTIVES, max_size=4, unique_by=lambda o: o.pattern), st.sampled_from(list(Goal)))
def test_written_objectives_are_read_back_unchanged(tenants: list[Objective], goal: Goal) -> None:
    objectives = Objectives(tuple(tenants), goal)
    assert objectives_from(objectives_document(objectives), "a document") == objectives
    assert parse_objectives(objectives_toml(objectives), "o.toml") == objectives


def test_defaults_are_left_out_and_whole_numbers_are_written_so() -> None:
    table = {"cgroup": "/db", "throughput_ops": 5000, "memory_min": "64MiB"}
    assert objective_table(objective_from(table, "a table")) == table
    assert objective_table(Objective(pattern="/db")) == {"cgroup": "/db"}
    assert objectives_toml(Objectives()) == ""
