# SPDX-License-Identifier: Apache-2.0
"""`make bench-models` at tiny sizes: the program works, and it writes what it measured."""

import json
import os
import shlex
import subprocess
from collections import OrderedDict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from docs_examples import benchmarks
from experiments.models_vs_libcachesim import plots
from experiments.models_vs_libcachesim.rows import Row, merge
from experiments.models_vs_libcachesim.traces import zipf

from cachepilot import _models, manifest
from cachepilot.results import read_results

ROOT = Path(__file__).resolve().parents[1]
(QUICK,) = benchmarks()
PERCENT = (1, 10, 30)


def lru_misses(keys: Sequence[int], size: int) -> int:
    cache: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for key in keys:
        misses += key not in cache
        cache[key] = None
        cache.move_to_end(key)
        if len(cache) > size:
            cache.popitem(last=False)
    return misses


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Write a folder with one recorded trace, whose reference for LRU is the loop above."""
    folder = tmp_path / "traces"
    folder.mkdir()
    keys = zipf(3000, 400)
    keys.tofile(tmp_path / "tiny.u64")
    _models.trace_convert(str(tmp_path / "tiny.u64"), str(folder / "tiny.u64.zst"))
    distinct = len(np.unique(keys))
    (folder / "index.tsv").write_text(
        f"name\trequests\tdistinct\ntiny\t{len(keys)}\t{distinct}\n", "utf-8"
    )
    lines = ["name\tpct\tsize\tLRU\tMRU"]
    for percent in PERCENT:
        size = max(1, round(distinct * percent / 100))
        ratio = lru_misses(keys.tolist(), size) / len(keys)
        lines.append(f"tiny\t{percent}\t{size}\t{ratio:.5f}\t")
    (folder / "policies.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def run_quick(out: Path, traces: Path, *names: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*shlex.split(QUICK.line), "--out", out, *names],
        cwd=ROOT,
        env={**os.environ, "CACHEPILOT_TRACES": str(traces)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_every_benchmark_runs_and_its_rows_are_valid(tmp_path: Path, traces: Path) -> None:
    out = tmp_path / "out"
    done = run_quick(out, traces)
    assert done.returncode == 0, done.stderr
    rows = {row.metric: row for row in read_results(out / "results.json")}
    policies = set(manifest.policies())
    for family in ("mreq_s", "bytes_per_page", "minisim_mae"):
        prefix = f"models.{family}."
        found = {metric.removeprefix(prefix) for metric in rows if metric.startswith(prefix)}
        assert found == policies
    assert rows["models.sim_error_max.lru"].value <= 0.000_005_1
    assert {"models.choice_regret", "models.exact_mreq_s", "models.bank_mib"} <= rows.keys()
    assert ("models.speedup.lru" in rows) == (find_spec("libcachesim") is not None)
    table = (out / "table.md").read_text("utf-8")
    assert all(f"`{metric}`" in table for metric in rows)
    drawn = {path.name: path.read_bytes() for path in out.glob("*.svg")}
    assert {"sim_error.svg", "choice_regret.svg"} <= drawn.keys()
    plots.write(read_results(out / "results.json"), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.svg")} == drawn


def test_without_traces_earlier_accuracy_stays(tmp_path: Path, traces: Path) -> None:
    out = tmp_path / "out"
    assert run_quick(out, traces, "accuracy").returncode == 0
    before = (out / "results.json").read_bytes()
    done = run_quick(out, tmp_path / "nowhere", "accuracy")
    assert done.returncode == 0
    assert "no recorded traces" in done.stderr
    assert (out / "results.json").read_bytes() == before


def test_an_unknown_benchmark_is_refused(tmp_path: Path, traces: Path) -> None:
    done = run_quick(tmp_path / "out", traces, "sped")
    assert done.returncode == 2
    assert "unknown benchmark 'sped'" in done.stderr
    assert not (tmp_path / "out").exists()


def test_merging_replaces_what_was_measured_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    merge(
        path, [Row("models.a.lru", 1, "x"), Row("models.a.gone", 1, "x"), Row("models.b", 1, "x")]
    )
    merge(path, [Row.of_runs("models.a.lru", [3, 2, 9], "x"), Row("models.c", 5, "x")])
    values = {row["metric"]: row["value"] for row in json.loads(path.read_text("utf-8"))}
    assert values == {"models.a.lru": 3, "models.b": 1, "models.c": 5}
    assert read_results(path)[0].spread == (2, 9)


def test_the_goal_of_several_runs_can_stand_on_the_worst() -> None:
    middle, worst = Row.worst_of("a.ratio", [3, 2, 9], "x", goal=4, better="higher")
    assert (middle.metric, middle.value, middle.goal) == ("a.ratio", 3, None)
    assert (worst.metric, worst.value, worst.goal) == ("a.ratio.worst", 2, 4)
    assert middle.spread == worst.spread == (2, 9)
    assert (middle.runs, worst.runs) == (3, 3)
    assert [row.value for row in Row.worst_of("a.seconds", [3, 2, 9], "s")] == [3, 9]


def test_the_synthetic_trace_is_zipf_and_always_the_same() -> None:
    keys = zipf(200_000, 100)
    assert np.array_equal(keys, zipf(200_000, 100))
    counts = np.sort(np.unique(keys, return_counts=True)[1])[::-1]
    expected = 200_000 / np.arange(1, 101) / (1 / np.arange(1, 101)).sum()
    assert len(counts) == 100
    assert np.allclose(counts[:20], expected[:20], rtol=0.06)
