# SPDX-License-Identifier: Apache-2.0
"""Bad input: exit status 2, exactly one line on stderr, nothing on stdout, no file written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cachepilot import _models

TRACE = "small.u64"
SIM = ("sim", TRACE, "--policy", "lru")
READAHEAD = ("readahead", "files.cptrace")
MRC = ("mrc", TRACE, "--policy", "lru")
VM = ("vm", "run")

COMMAND_LINES: list[tuple[str, ...]] = [
    ("nope",),
    ("--nope",),
    ("trace",),
    ("sim",),
    ("mrc",),
    ("compare",),
    ("sim", "missing.u64"),
    ("mrc", "missing.u64"),
    ("compare", TRACE, "missing.u64"),
    ("trace", "info", "missing.u64"),
    ("trace", "head", "missing.u64"),
    ("trace", "head", TRACE, "-n", "0"),
    ("trace", "head", TRACE, "-n", "99999999999999999999"),
    ("sim", "small.what"),
    ("mrc", "small.what", "--plot", "out.svg"),
    ("sim", "."),
    ("sim", "empty.u64"),
    ("mrc", "empty.u64", "--plot", "out.svg"),
    ("trace", "info", "empty.u64"),
    ("sim", "truncated.u64"),
    ("mrc", "truncated.u64", "--plot", "out.svg"),
    ("sim", "table.csv", "--column", "nope"),
    ("sim", "headless.csv", "--column", "7"),
    ("sim", "headless.csv", "--column", "0x1f"),
    ("mrc", "headless.csv", "--offset", "4096"),
    ("sim", TRACE, "--policy", "nope"),
    ("sim", TRACE, "--policy", ""),
    ("policies", "nope"),
    ("policies", "lru", "--kind", "readahead"),
    ("policies", "--kind", "nope"),
    ("readahead",),
    ("readahead", "missing.cptrace"),
    ("readahead", TRACE),
    ("readahead", "keys.cptrace", "--policy", "linux"),
    (*READAHEAD, "--policy", "lru"),
    (*READAHEAD, "--policy", "opt"),
    (*READAHEAD, "--policy", ""),
    (*READAHEAD, "--evict", "stride"),
    (*READAHEAD, "--evict", "opt"),
    (*READAHEAD, "--size", "3"),
    (*READAHEAD, "--size", "0.0001"),
    (*READAHEAD, "--size", "9999"),
    (*READAHEAD, "--window", "0"),
    (*READAHEAD, "--window", "9999999"),
    (*READAHEAD, "--set", "linux.nope=1"),
    (*READAHEAD, "--policy", "linux", "--set", "stride.matches=2"),
    (*READAHEAD, "--set", "stride.matches=0"),
    (*READAHEAD, "--set", "lru.nope=1"),
    (*SIM, "--size", "4096"),
    (*SIM, "--size", "16GiB"),
    (*SIM, "--size", "0"),
    (*SIM, "--size", "0.0"),
    (*SIM, "--size", "1.01"),
    (*SIM, "--size", "many"),
    (*SIM, "--size", "16MB"),
    (*SIM, "--batch", "0"),
    (*SIM, "--batch", "1000000"),
    (*SIM, "--batch", "x"),
    (*SIM, "--seed", "-1"),
    (*SIM, "--seed", "99999999999999999999999"),
    (*SIM, "--threads", "-1"),
    (*SIM, "--set", "lru.nope=1"),
    (*SIM, "--set", "nope"),
    (*SIM, "--json", "--size", "9999"),
    (*SIM, "--warmup", "x"),
    (*SIM, "--warmup", "-1"),
    (*SIM, "--warmup", "1.0"),
    (*SIM, "--warmup", "100%"),
    (*SIM, "--warmup", "4000"),
    (*SIM, "--window", "0"),
    (*SIM, "--window", "x"),
    (*SIM, "--format", "nope"),
    (*SIM, "--format", "lirs"),
    (*SIM, "--format", "vscsi"),
    (*SIM, "--format", "lcs"),
    (*SIM, "--format", "u64.gz"),
    (*SIM, "--page-size", "4096"),
    (*SIM, "--whole-requests"),
    (*SIM, "--offset", "page"),
    ("sim", "table.csv", "--offset", "nope"),
    ("sim", "table.csv", "--length", "size"),
    ("sim", "table.csv", "--offset", "page", "--page-size", "1000"),
    ("sim", "table.csv", "--offset", "page", "--page-size", "4MB"),
    ("sim", "table.csv", "--offset", "page", "--page-size", "1.5"),
    ("trace", "info", "table.csv", "--format", "msr"),
    ("trace", "head", "table.csv", "--format", "arc"),
    (*MRC, "--rate", "0"),
    (*MRC, "--rate", "1.5"),
    (*MRC, "--rate", "-0.1"),
    (*MRC, "--rate", "nan"),
    (*MRC, "--rate", "0.1", "--smax", "100"),
    (*MRC, "--smax", "0"),
    (*MRC, "--half-life", "0"),
    (*MRC, "--points", "1"),
    (*MRC, "--points", "99999999999"),
    (*MRC, "--method", "nope"),
    (*MRC, "--method", "exact", "--rate", "0.1"),
    (*MRC, "--plot", "out.jpg"),
    (*MRC, "--plot", "out"),
    (*MRC, "--plot", "no/such/folder/out.svg"),
    (*MRC, "--rate", "2", "--plot", "out.svg"),
    ("mrc", TRACE, "--policy", "fifo", "--method", "shards"),
    ("mrc", TRACE, "--policy", "opt", "--method", "minisim"),
    ("compare", TRACE, "--sizes", "0.1,9999", "--plot", "out.svg"),
    ("compare", TRACE, "--sizes", "0.1,"),
    ("compare", TRACE, "--policy", "opt"),
    ("compare", TRACE, "--plot", "out.gif"),
    ("vm",),
    ("vm", "run"),
    ("vm", "shell"),
    (*VM, "--kernel", "nope", "--", "true"),
    (*VM, "--cpus", "0", "--", "true"),
    (*VM, "--cpus", "2", "--icount", "--", "true"),
    (*VM, "--memory", "2", "--", "true"),
    (*VM, "--disk", "1M", "--", "true"),
    (*VM, "--filesystem", "ntfs", "--", "true"),
    (*VM, "--iops", "0", "--", "true"),
    (*VM, "--latency-us", "-1", "--", "true"),
    (*VM, "--timeout", "0", "--", "true"),
    (*VM, "--share", "missing", "--", "true"),
    ("trace", "convert", TRACE),
    ("trace", "convert", TRACE, "empty.u64"),
    ("trace", "convert", TRACE, TRACE),
    ("trace", "convert", TRACE, "out.what"),
    ("trace", "convert", TRACE, "no/such/out.u64"),
    ("trace", "convert", TRACE, "."),
    ("trace", "convert", "truncated.u64", "out.u64"),
    ("trace", "convert", "missing.u64", "out.u64"),
    ("trace", "generate", "out.u64"),
    ("trace", "generate", "out.u64", "--mix", "nope"),
    ("trace", "generate", "out.u64", "--mix", "zipf"),
    ("trace", "generate", "out.u64", "--mix", "loop,pages=0"),
    ("trace", "generate", "out.u64", "--mix", "scan", "--requests", "0"),
    ("trace", "generate", "out.csv", "--mix", "scan"),
    ("trace", "generate", TRACE, "--mix", "scan"),
    ("trace", "generate", "no/such/out.u64", "--mix", "scan"),
    ("scorecard",),
    ("scorecard", "--experiments", "broken"),
]


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def folder(tmp_path: Path, trace: Path, recording: Path) -> Path:
    recording.rename(tmp_path / "files.cptrace")
    _models.trace_convert(str(trace), str(tmp_path / "keys.cptrace"))
    (tmp_path / "small.what").write_bytes(trace.read_bytes())
    (tmp_path / "empty.u64").write_bytes(b"")
    (tmp_path / "truncated.u64").write_bytes(trace.read_bytes()[:-3])
    (tmp_path / "table.csv").write_text("page,size\n1,2\n")
    (tmp_path / "headless.csv").write_text("7,0x1f,4096,name\n8,0x2f,8192,name\n")
    (tmp_path / "broken" / "some").mkdir(parents=True)
    (tmp_path / "broken" / "some" / "results.json").write_text('[{"metric": "x"}]')
    return tmp_path


def assert_refused(outcome: Any) -> None:
    assert outcome.status == 2, outcome
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("cachepilot: error: ")
    assert outcome.stderr.count("\n") == 1
    assert outcome.stderr.endswith("\n")


@pytest.mark.parametrize("arguments", COMMAND_LINES, ids=" ".join)
def test_refused(folder: Path, run_cli: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    before = snapshot(folder)
    assert_refused(run_cli(*arguments))
    assert snapshot(folder) == before


def test_the_line_names_what_is_allowed(folder: Path, run_cli: Callable[..., Any]) -> None:
    pages = len(np.unique(np.fromfile(folder / TRACE, dtype="<u8")))
    assert f"allowed: 1 to {pages} pages" in run_cli(*SIM, "--size", "4096").stderr
    assert "(0, 1]" in run_cli(*MRC, "--rate", "1.5").stderr
    assert ".svg, .png, .pdf" in run_cli(*MRC, "--plot", "out.jpg").stderr
    assert "arc, " in run_cli("sim", TRACE, "--policy", "nope").stderr
    assert "out.what" in run_cli("trace", "convert", TRACE, "out.what").stderr
    assert "row 1: missing" in run_cli("scorecard", "--experiments", "broken").stderr
    assert "leap, linux, stride, all" in run_cli(*READAHEAD, "--policy", "lru").stderr
    assert "4 or more" in run_cli(*READAHEAD, "--size", "3").stderr
    assert "file and the index" in run_cli("readahead", "keys.cptrace").stderr
    assert "expected .cptrace" in run_cli("readahead", TRACE).stderr
    assert "known: u64, oracleGeneral" in run_cli(*SIM, "--format", "nope").stderr
    assert "needs a header line" in run_cli("sim", "headless.csv", "--column", "7").stderr
    assert "line 1 has 2 fields" in run_cli("sim", "table.csv", "--format", "msr").stderr
    assert "4000 requests" in run_cli(*SIM, "--warmup", "4000").stderr
    assert (
        "pages=0 is not in 1 to"
        in run_cli("trace", "generate", "out.u64", "--mix", "loop,pages=0").stderr
    )
    for name in ("empty.u64", "truncated.u64", "small.what", "missing.u64"):
        assert name in run_cli("sim", name).stderr
