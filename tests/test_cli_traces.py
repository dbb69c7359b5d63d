# SPDX-License-Identifier: Apache-2.0
"""Trace files of other simulators, synthetic traces, warm-ups and windows on the command line."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cachepilot.simulator import simulate, synthetic_keys, trace_keys

RunCli = Callable[..., Any]
MSR = "128166372003061629,hm,0,Read,4096,8192,153\n128166372003061729,hm,0,Write,0,4096,40\n"
MIX = ("zipf,pages=300,alpha=0.9,weight=2", "loop,pages=50", "shifting,pages=20,every=90,by=5")


def facts(outcome: Any) -> Any:
    assert outcome.status == 0, outcome.stderr
    return json.loads(outcome.stdout)


def test_a_packed_file_with_another_name_is_read_as_the_format_that_is_named(
    tmp_path: Path, run_cli: RunCli
) -> None:
    with gzip.open(tmp_path / "hm_0.csv.gz", "wt") as file:
        file.write(MSR)
    info = facts(run_cli("trace", "info", "hm_0.csv.gz", "--format", "msr", "--json"))
    assert (info["format"], info["requests"], info["distinct_pages"]) == ("msr.gz", 3, 3)
    assert info["duration_ns"] == 10_000
    whole = ("--whole-requests", "--json")
    assert (
        facts(run_cli("trace", "info", "hm_0.csv.gz", "--format", "msr", *whole))["requests"] == 2
    )


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (("--offset", "at"), [1, 0]),
        (("--offset", "at", "--length", "n"), [1, 2, 0]),
        (("--offset", "at", "--length", "n", "--page-size", "8KiB"), [0, 1, 0]),
        (
            ("--offset", "at", "--length", "n", "--page-size", "512"),
            [8 + i for i in range(9)] + [7],
        ),
        (("--offset", "at", "--whole-requests"), [4096, 3584]),
    ],
)
def test_columns_of_csv_are_byte_ranges(
    tmp_path: Path, run_cli: RunCli, options: tuple[str, ...], keys: list[int]
) -> None:
    (tmp_path / "a.csv").write_text("n,at\n4097,4096\n512,3584\n", "ascii")
    rows = facts(run_cli("trace", "head", "a.csv", "-n", "99", "--json", *options))
    assert [row["key"] for row in rows] == keys


def test_every_command_reads_them(tmp_path: Path, run_cli: RunCli) -> None:
    text = "".join(f"{block}\n" for block in np.random.default_rng(1).zipf(1.3, 3000) % 200)
    (tmp_path / "blocks.txt").write_text(text, "ascii")
    lirs = ("--format", "lirs")
    shown = facts(run_cli("sim", "blocks.txt", "--policy", "lru", "--json", *lirs))
    assert run_cli("trace", "convert", "blocks.txt", "blocks.u64", *lirs).status == 0
    same = facts(run_cli("sim", "blocks.u64", "--policy", "lru", "--json"))
    assert shown[0]["misses"] == same[0]["misses"]
    curve = facts(run_cli("mrc", "blocks.txt", "--policy", "lru", "--json", *lirs))
    assert curve[0]["requests"] == 3000
    compared = ("--policy", "lru,fifo", "--json", *lirs)
    assert facts(run_cli("compare", "blocks.txt", *compared))["results"]


@pytest.mark.parametrize("name", ["a.u64", "a.u64.zst", "a.cptrace", "a.cptrace.zst"])
def test_a_synthetic_trace_is_that_of_its_seed(tmp_path: Path, run_cli: RunCli, name: str) -> None:
    mix = [word for pattern in MIX for word in ("--mix", pattern)]
    arguments = ("trace", "generate", name, "--requests", "70000", "--seed", "9", *mix)
    outcome = run_cli(*arguments)
    assert outcome.stdout == f"{name}: 70,000 requests written\n", outcome.stderr
    assert np.array_equal(trace_keys(str(tmp_path / name)), synthetic_keys(MIX, 70_000, seed=9))
    assert run_cli(*arguments).status == 2, "it exists already"
    assert run_cli(*arguments, "--force").status == 0


def test_a_warm_up_does_not_count_and_windows_sum_to_the_rest(
    tmp_path: Path, trace: Path, run_cli: RunCli
) -> None:
    arguments = ("sim", trace.name, "--policy", "lru,opt", "--size", "40", "--warmup", "25%")
    rows = facts(run_cli(*arguments, "--window", "700", "--json"))
    for row in rows:
        assert row["requests"] == 3000
        assert row["window_requests"] == [700, 700, 700, 700, 200]
        assert sum(row["window_misses"]) == row["misses"]
        assert row["window_miss_ratio"][-1] == row["window_misses"][-1] / 200
    plain = facts(run_cli(*arguments[:-2], "--json"))
    assert "window_misses" not in plain[0]
    (whole,) = simulate(str(trace), ["lru"], [40])
    assert plain[0]["misses"] == whole.misses > rows[0]["misses"]


def test_windows_are_shown_as_a_table(trace: Path, run_cli: RunCli) -> None:
    arguments = ("sim", trace.name, "--policy", "lru,fifo", "--warmup", "400", "--window", "10")
    outcome = run_cli(*arguments)
    assert outcome.status == 0, outcome.stderr
    assert "the first 400 requests are a warm-up" in outcome.stdout
    assert "360 windows of 10 requests" in outcome.stdout
