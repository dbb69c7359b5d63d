# SPDX-License-Identifier: Apache-2.0
"""The YCSB client on a small database, and its keys compared with Zipf's law."""

import json
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docs_examples import of_ycsb
from experiments.workloads.ycsb.compiled import program
from numpy.typing import NDArray
from scipy import stats

ROOT = Path(__file__).resolve().parent.parent
RECORDS = 2000
MIXES = {
    "a": {"read": 0.5, "update": 0.5},
    "b": {"read": 0.95, "update": 0.05},
    "c": {"read": 1.0},
    "d": {"read": 0.95, "insert": 0.05},
    "e": {"scan": 0.95, "insert": 0.05},
    "f": {"read": 0.5, "read_modify_write": 0.5},
    "uniform": {"read": 1.0},
}
pytestmark = pytest.mark.skipif(
    not Path("/usr/include/rocksdb/db.h").is_file() or shutil.which("c++") is None,
    reason="needs librocksdb-dev and g++",
)
Run = Callable[..., list[dict[str, Any]]]


def ycsb(*words: object) -> "subprocess.CompletedProcess[str]":
    command = [str(program()), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Load a database of RECORDS records of 100 bytes."""
    path = tmp_path_factory.mktemp("ycsb") / "db"
    done = ycsb("load", path, "--records", RECORDS, "--value-bytes", 100)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def run(database: Path) -> Run:
    def lines(*words: object) -> list[dict[str, Any]]:
        common = ("--records", RECORDS, "--value-bytes", 100)
        done = ycsb("run", database, *common, *words)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return lines


@pytest.mark.parametrize("name", MIXES)
def test_a_workload_has_its_mix_of_operations(run: Run, name: str) -> None:
    operations = 4000
    end = run("--workload", name, "--operations", operations)[-1]
    assert end["at"] == "end"
    assert end["operations"] == operations
    kinds = {kind: end[kind]["operations"] for kind in end if isinstance(end[kind], dict)}
    assert set(kinds) == set(MIXES[name])
    for kind, share in MIXES[name].items():
        # Five standard deviations of a binomial draw.
        allowed = 5 * (operations * share * (1 - share)) ** 0.5
        assert abs(kinds[kind] - operations * share) <= allowed
        assert 0 < end[kind]["p50_us"] <= end[kind]["p99_us"] <= end[kind]["p999_us"]


def test_lines_of_seconds_sum_to_the_whole_run(run: Run) -> None:
    lines = run("--workload", "getscan", "--threads", 2, "--scan-threads", 1, "--seconds", 2)
    seconds = [line for line in lines if line["at"] == "second"]
    end = lines[-1]
    assert 1 <= len(seconds) <= 2
    assert {"read", "scan"} <= set(end)
    counted = sum(line["operations"] for line in seconds)
    assert 0 < counted <= end["operations"]
    assert end["operations_per_second"] == pytest.approx(
        end["operations"] / end["seconds"], rel=0.01
    )


def test_the_counters_can_be_scraped_and_a_signal_ends_the_run(database: Path) -> None:
    words = ["run", str(database), "--records", str(RECORDS), "--seconds", "60"]
    with subprocess.Popen(
        [str(program()), *words, "--metrics-port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        start = json.loads(process.stdout.readline())
        process.stdout.readline()  # a second has passed
        url = f"http://127.0.0.1:{start['metrics_port']}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(timeout=30) == 0
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    scraped = int(samples['ycsb_operations_total{kind="read"}'])
    assert 0 < scraped <= json.loads(rest.splitlines()[-1])["operations"]


def test_the_examples_of_its_page_work(tmp_path: Path) -> None:
    """The examples are as typed, with fewer records and for one second."""
    script = "\n".join(one.line for one in of_ycsb())
    for old, new in {
        ".venv/bin/python": sys.executable,
        "build/": f"{tmp_path}/",
        "--records 100000": f"--records {RECORDS}",
        "--seconds 30": "--seconds 1",
    }.items():
        assert old in script
        script = script.replace(old, new)
    script = script.replace("--workload getscan", "--workload getscan --seconds 1")
    done = subprocess.run(
        ["bash", "-euc", script], cwd=ROOT, check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    ends = [json.loads(line) for line in done.stdout.splitlines() if '"end"' in line]
    assert len(ends) == script.count("$ycsb run")


def drawn(*words: object) -> NDArray[np.int64]:
    done = ycsb("keys", *words)
    assert done.returncode == 0, done.stderr
    return np.array(done.stdout.split(), dtype=np.int64)


def fnv_hash(value: int) -> int:
    """Return FNV-1a over eight octets, without its sign (Utils.fnvhash64 of YCSB)."""
    result = 0xCBF29CE484222325
    for octet in value.to_bytes(8, "little"):
        result = (result ^ octet) * 1099511628211 % 2**64
    return 2**64 - result if result >= 2**63 else result


def zipf_probabilities(exponent: float) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = np.arange(1, RECORDS + 1, dtype=np.float64) ** -exponent
    weights /= weights.sum()
    return weights


@pytest.mark.parametrize("exponent", [0.0, 0.6, 0.99, 1.0, 1.2])
def test_keys_follow_the_scrambled_zipfian(exponent: float) -> None:
    count = 200_000
    keys = drawn("--records", RECORDS, "--zipf", exponent, "--operations", count)
    expected = np.zeros(RECORDS)
    for rank, probability in enumerate(zipf_probabilities(exponent)):
        expected[fnv_hash(rank) % RECORDS] += probability * count
    observed = np.bincount(keys, minlength=RECORDS)
    assert not observed[expected == 0].any()
    chosen = expected >= 5
    result = stats.chisquare(
        np.append(observed[chosen], observed[~chosen].sum()),
        np.append(expected[chosen], expected[~chosen].sum() + 1e-9),
        sum_check=False,
    )
    assert result.pvalue > 1e-3


def test_the_newest_records_are_the_most_popular_in_d() -> None:
    keys = drawn("--workload", "d", "--records", RECORDS, "--operations", 100_000)
    observed = np.bincount(keys, minlength=RECORDS)[::-1]
    expected = zipf_probabilities(0.99) * 100_000
    # A Poisson count is within five standard deviations of its mean.
    assert (np.abs(observed - expected)[:50] <= 5 * np.sqrt(expected[:50])).all()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "db", "--threads", "65"), "--threads 65: must be 0 to 64"),
        (("run", "db", "--zipf", "-1"), "--zipf -1: must be 0 to 10"),
        (("run", "db", "--workload", "g"), "--workload g: must be one of a, b"),
        (("run",), "one database folder must be named"),
        (("sleep", "db"), "the first argument must be load, run or keys"),
    ],
)
def test_bad_words_are_refused_in_one_line(words: tuple[str, ...], said: str) -> None:
    done = ycsb(*words)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[0]


def test_a_database_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = ycsb("run", tmp_path / "none", "--seconds", 1)
    assert done.returncode == 1
    assert "none" in done.stderr
