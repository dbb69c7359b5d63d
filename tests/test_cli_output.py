# SPDX-License-Identifier: Apache-2.0
"""What the commands print and write on success."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RunCli = Callable[..., Any]

SIM_TYPES = {
    "policy": str,
    "size_pages": int,
    "requests": int,
    "misses": int,
    "miss_ratio": float,
    "seconds": float,
}
MRC_TYPES = {
    "policy": str,
    "method": str,
    "rate": float,
    "sizes_pages": list,
    "miss_ratio": list,
    "stderr": list,
    "requests": int,
    "sampled": int,
    "seconds": float,
}


def read_json(outcome: Any) -> Any:
    assert (outcome.status, outcome.stderr) == (0, ""), outcome
    return json.loads(outcome.stdout)


def assert_types(row: dict[str, Any], types: dict[str, type]) -> None:
    assert {key: type(row[key]) for key in types} == types


def footprint(trace: Path) -> int:
    return len(np.unique(np.fromfile(trace, dtype="<u8")))


def test_sim_json_has_one_object_per_policy(run_cli: RunCli, trace: Path) -> None:
    names = [policy["name"] for policy in read_json(run_cli("policies", "--json"))]
    rows = read_json(run_cli("sim", trace, "--size", "10%", "--json"))
    assert [row["policy"] for row in rows] == names
    for row in rows:
        assert_types(row, SIM_TYPES)
        assert row["size_pages"] == int(footprint(trace) / 10 + 0.5)
        assert row["requests"] == 4000
        assert row["miss_ratio"] == row["misses"] / row["requests"]
        assert footprint(trace) <= row["misses"] <= 4000


def test_sim_at_the_whole_footprint_misses_every_page_once(run_cli: RunCli, trace: Path) -> None:
    for size in ("1.0", "100%", str(footprint(trace))):
        (row,) = read_json(run_cli("sim", trace, "--policy", "lru", "--size", size, "--json"))
        assert row["misses"] == footprint(trace)


def test_sim_table_is_sorted_by_miss_ratio(run_cli: RunCli, trace: Path) -> None:
    outcome = run_cli("sim", trace, "--policy", "lru,mru,fifo")
    assert (outcome.status, outcome.stderr) == (0, "")
    lines = [line.split() for line in outcome.stdout.splitlines()]
    found = [
        (line[0], float(line[1])) for line in lines if line and line[0] in ("lru", "mru", "fifo")
    ]
    assert len(found) == 3
    assert [ratio for _, ratio in found] == sorted(ratio for _, ratio in found)


def test_every_tunable_can_be_set_to_its_bounds(run_cli: RunCli, trace: Path) -> None:
    manifests = read_json(run_cli("policies", "--json"))
    for bound in ("min", "max"):
        settings = [
            f"--set={manifest['name']}.{tunable['name']}={tunable[bound]}"
            for manifest in manifests
            for tunable in manifest["tunables"]
            if tunable.get("length", 1) == 1
        ]
        assert settings
        rows = read_json(run_cli("sim", trace, *settings, "--json"))
        assert [row["policy"] for row in rows] == [manifest["name"] for manifest in manifests]


@pytest.mark.parametrize(
    ("arguments", "methods"),
    [
        (("--policy", "lru,fifo,opt"), ["shards", "minisim", "exact"]),
        (("--policy", "fifo,lru", "--method", "minisim", "--rate", "0.5"), ["minisim"] * 2),
        (("--policy", "lru", "--method", "shards", "--smax", "100"), ["shards"]),
        (("--policy", "lru,opt,fifo", "--method", "exact"), ["exact"] * 3),
    ],
)
def test_mrc_json(
    run_cli: RunCli, trace: Path, arguments: tuple[str, ...], methods: list[str]
) -> None:
    rows = read_json(run_cli("mrc", trace, *arguments, "--points", "20", "--json"))
    assert [row["policy"] for row in rows] == arguments[1].split(",")
    for row, method in zip(rows, methods, strict=True):
        assert_types(row, MRC_TYPES)
        assert row["method"].startswith(method)
        assert len(row["sizes_pages"]) == len(row["miss_ratio"]) == len(row["stderr"]) == 20
        assert row["sizes_pages"] == sorted(set(row["sizes_pages"]))
        assert row["sizes_pages"][-1] == footprint(trace)
        assert all(0 <= ratio <= 1 for ratio in row["miss_ratio"])
        assert row["requests"] == 4000
        assert 0 < row["rate"] <= 1


def test_exact_curve_and_simulation_agree(run_cli: RunCli, trace: Path) -> None:
    arguments = ("--policy", "lru", "--method", "exact", "--points", "5", "--json")
    (curve,) = read_json(run_cli("mrc", trace, *arguments))
    sizes = ",".join(map(str, curve["sizes_pages"]))
    arguments = ("--policy", "lru", "--batch", "1", "--size", sizes, "--json")
    rows = read_json(run_cli("sim", trace, *arguments))
    assert [row["miss_ratio"] for row in rows] == pytest.approx(curve["miss_ratio"], abs=1e-12)


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_plot_is_written_whole_and_alone(
    run_cli: RunCli, trace: Path, tmp_path: Path, suffix: str
) -> None:
    plot = tmp_path / f"curve{suffix}"
    outcome = run_cli("mrc", trace, "--policy", "lru,fifo", "--plot", plot.name)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert plot.name in outcome.stdout
    head = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}[suffix]
    assert plot.read_bytes().startswith(head)
    assert {path.name for path in tmp_path.iterdir()} == {plot.name, trace.name}
    if suffix == ".svg":
        ET.parse(plot)


def test_mrc_table_names_every_policy(run_cli: RunCli, trace: Path) -> None:
    outcome = run_cli("mrc", trace, "--policy", "lru,fifo")
    assert (outcome.status, outcome.stderr) == (0, "")
    words = outcome.stdout.split()
    assert "lru" in words
    assert "fifo" in words
    assert "--plot" in words


def test_compare(run_cli: RunCli, trace: Path, tmp_path: Path) -> None:
    arguments = ("compare", trace, trace, "--sizes", "0.1,0.5", "--policy", "all,opt")
    found = read_json(run_cli(*arguments, "--plot", "map.svg", "--json"))
    ET.parse(tmp_path / "map.svg")
    best: dict[int, float] = {}
    for row in found["results"]:
        assert_types(row, SIM_TYPES)
        if row["policy"] != "opt":
            size = row["size_pages"]
            best[size] = min(best.get(size, 1.0), row["miss_ratio"])
    ratios = {(row["policy"], row["size_pages"]): row["miss_ratio"] for row in found["results"]}
    assert len(found["choices"]) == 4
    for choice in found["choices"]:
        size = choice["size_pages"]
        assert choice["rate"] == 1.0
        assert ratios[choice["best"], size] == best[size]
        assert choice["regret"] == ratios[choice["chosen"], size] - best[size]
    strategies = [row["strategy"] for row in found["regret"]]
    assert strategies == ["by curves", "always lru", "always s3fifo", "always kernel_lru"]
    outcome = run_cli(*arguments)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert "always kernel_lru" in outcome.stdout


def test_policies_show_their_tunables(run_cli: RunCli) -> None:
    manifests = read_json(run_cli("policies", "--json"))
    table = run_cli("policies").stdout
    assert all(manifest["name"] in table for manifest in manifests)
    shown = max(manifests, key=lambda manifest: len(manifest["tunables"]))
    assert read_json(run_cli("policies", shown["name"], "--json")) == shown
    text = run_cli("policies", shown["name"]).stdout
    assert all(tunable["name"] in text for tunable in shown["tunables"])


def test_trace_commands(run_cli: RunCli, trace: Path, tmp_path: Path) -> None:
    facts = read_json(run_cli("trace", "info", trace, "--json"))
    assert (facts["requests"], facts["distinct_pages"]) == (4000, footprint(trace))
    assert 0 <= facts["one_hit_ratio"] <= 1
    assert len(read_json(run_cli("trace", "head", trace, "-n", "7", "--json"))) == 7
    assert "4,000" in run_cli("trace", "info", trace).stdout
    assert len(run_cli("trace", "head", trace).stdout.splitlines()) >= 10
    assert run_cli("trace", "convert", trace, "copy.u64").status == 0
    assert (tmp_path / "copy.u64").read_bytes() == trace.read_bytes()
    assert run_cli("trace", "convert", trace, "copy.u64").status == 2
    assert run_cli("trace", "convert", trace, "copy.u64", "--force").status == 0
    assert run_cli("trace", "convert", trace, trace, "--force").status == 0
    assert (tmp_path / "copy.u64").read_bytes() == trace.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"copy.u64", trace.name}


def test_help_and_version(run_cli: RunCli) -> None:
    for arguments in ((), ("--help",), ("sim", "--help"), ("trace", "convert", "--help")):
        outcome = run_cli(*arguments)
        assert (outcome.status, outcome.stderr) == (0, "")
        assert "Usage: cachepilot" in outcome.stdout
    assert run_cli("--version").stdout.startswith("cachepilot 0.")
