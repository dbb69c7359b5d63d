# SPDX-License-Identifier: Apache-2.0
"""`cachepilot-agent cachestat` on Debian's kernel: known hits and cold bytes, nothing left."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from docs_examples import cachestats

from cachepilot import agent
from cachepilot.vm import Machine, run

HERE = Path(__file__).parent
MIB = 1 << 20
# As in cachestat_guest.py.
ONCE_MIB, HOT_MIB, TIGHT_MIB, LOOP_MIB = 24, 8, 16, 16
REPORTS, COLD_POINTS, AGENT_READS = 60, 10, 3000
METRICS = "127.0.0.1:9464"

Told = dict[str, Any]


def _config(folder: Path) -> Path:
    """Write the configuration of an agent without a controller.

    Its tenants are cgroups that the test's other steps do not use.
    """
    path = folder / "agent.toml"
    path.write_text(
        f"""kind = "stock"
state_dir = "/tmp/agent"
metrics = "{METRICS}"
[kernel]
match = ["t-*"]
""",
        "utf-8",
    )
    return path


@pytest.fixture(scope="module")
def steps(debian_kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    """Return what the guest printed in one boot, by step."""
    assert debian_kernel.is_dir()
    folder = tmp_path_factory.mktemp("cachestat")
    lines = folder / "lines"
    lines.write_text("\n".join(sorted({one.line for one in cachestats()})), "utf-8")
    program = agent.find(os.environ)
    # One CPU: with several, the emulator fails on code that the kernel patches.
    machine = Machine(
        kernel="debian",
        cpus=1,
        shares=(folder,),
        disk_bytes=256 * MIB,
        environment=agent.environment_for(program, os.environ),
        timeout_seconds=1500,
    )
    script = HERE / "cachestat_guest.py"
    words = ["/usr/bin/python3", script, program, _config(folder), lines]
    result = run(machine, [str(word) for word in words])
    assert result.returncode == 0, result.output[-2000:] + result.errors
    return {line["step"]: line for line in map(json.loads, result.output.splitlines())}


@pytest.fixture(scope="module")
def cgroups(steps: dict[str, Told]) -> dict[str, Told]:
    """Return the last report, by cgroup."""
    report = steps["known"]["reports"][-1]
    return {cgroup["cgroup"]: cgroup for cgroup in report["cgroups"]}


def _means(steps: dict[str, Told], cgroup: str, key: str) -> float:
    """Return the mean of a key over the reports; a single report scatters by chance."""
    reports = steps["known"]["reports"]
    told = [one[key] for report in reports for one in report["cgroups"] if one["cgroup"] == cgroup]
    return float(sum(told) / len(told))


def test_there_are_as_many_reports_as_asked_for(steps: dict[str, Told]) -> None:
    assert steps["known"]["status"] == 0
    assert steps["count"]["count"] == REPORTS
    assert steps["count"]["seconds"] == pytest.approx(REPORTS, rel=0.1)
    assert all(report["lost_events"] == 0 for report in steps["known"]["reports"])


def test_the_memory_of_cachestat_is_as_documented(steps: dict[str, Told]) -> None:
    # Each of three busy cgroups has 3 MiB of curves, twice while they change, and a working set.
    assert 0 < steps["count"]["memory_kib"] < (24 + 3 * (2 * 3 + 1)) * 1024


def test_cgroups_with_processes_are_listed_busiest_first(
    cgroups: dict[str, Told],
) -> None:
    assert set(cgroups) == {"/cold", "/tight", "/loop", "/idle"}
    assert list(cgroups)[-1] == "/idle"


def test_pages_that_were_read_once_are_cold(
    steps: dict[str, Told], cgroups: dict[str, Told]
) -> None:
    cold = cgroups["/cold"]
    resident = (ONCE_MIB + HOT_MIB) * MIB
    assert cold["file_bytes"] == pytest.approx(resident, rel=0.03)
    assert (cold["misses"], cold["hit_ratio"], cold["evictions"]) == (0, 1.0, 0)
    assert cold["working_set_bytes"] == pytest.approx(HOT_MIB * MIB, rel=0.1)
    # Random reads miss in proportion to the pages for which there is no room.
    needed = HOT_MIB * (1 - COLD_POINTS / 100) * MIB
    assert cold["cold_bytes"] == pytest.approx(cold["file_bytes"] - needed, abs=1.5 * MIB)
    assert cold["cold_min_bytes"] <= cold["cold_bytes"] + 1
    assert cold["cold_min_bytes"] > ONCE_MIB * MIB * 0.9
    for size in ("half", "present", "double"):
        assert cold[f"predicted_{size}"]["miss_ratio"] < 0.02
    assert (cold["trusted"], cold["distrust"]) == (True, ""), cold
    assert f"file {cold['file_bytes']}" in steps["known"]["stat"]["cold"]


def test_the_cached_share_of_a_large_file_hits(
    steps: dict[str, Told], cgroups: dict[str, Told]
) -> None:
    tight = cgroups["/tight"]
    share = _means(steps, "/tight", "file_bytes") / (TIGHT_MIB * MIB)
    assert 0.3 < share < 0.8
    assert _means(steps, "/tight", "hit_ratio") == pytest.approx(share, abs=0.03)
    assert _means(steps, "/tight", "fill_ratio") == pytest.approx(1 - share, abs=0.03)
    assert _means(steps, "/tight", "refaults") == pytest.approx(
        _means(steps, "/tight", "misses"), rel=0.1
    )
    for size, times in (("half", 0.5), ("present", 1), ("double", 2)):
        point = tight[f"predicted_{size}"]
        expected = max(0.0, 1 - times * share)
        assert point["size_bytes"] == pytest.approx(times * tight["file_bytes"], rel=0.01)
        # Curves from a few seconds of 4,096 pages scatter by 0.025 from run to run.
        assert point["miss_ratio"] == pytest.approx(expected, abs=max(0.08, point["error"])), size
    cold = COLD_POINTS / 100 * TIGHT_MIB * MIB
    assert tight["cold_bytes"] == pytest.approx(cold, abs=MIB)
    assert tight["trusted"], tight["distrust"]
    sizes = [point["size_bytes"] for point in tight["curve"]]
    assert len(sizes) > 30 and sizes == sorted(sizes)


def test_readahead_turns_reads_of_a_loop_into_hits(
    steps: dict[str, Told], cgroups: dict[str, Told]
) -> None:
    assert _means(steps, "/loop", "hit_ratio") > 0.9
    assert _means(steps, "/loop", "fill_ratio") == pytest.approx(1.0, abs=0.1)
    assert _means(steps, "/loop", "readahead_pages") > 10 * _means(steps, "/loop", "misses")
    loop = cgroups["/loop"]
    assert loop["predicted_present"]["miss_ratio"] > 0.9
    assert loop["predicted_double"]["miss_ratio"] < 0.1
    assert loop["working_set_bytes"] == pytest.approx(LOOP_MIB * MIB, rel=0.1)


def test_an_idle_cgroup_has_no_prediction(cgroups: dict[str, Told]) -> None:
    idle = cgroups["/idle"]
    assert (idle["accesses"], idle["hit_ratio"], idle["cold_bytes"]) == (0, None, None)
    assert re.fullmatch(r"no accesses in \d+ s", idle["distrust"])


def test_without_a_terminal_each_report_is_a_table(steps: dict[str, Told]) -> None:
    told = steps["table"]
    assert told["status"] == 0
    reports = told["text"].strip().split("\n\n")
    assert len(reports) == 2
    for report in reports:
        head, titles, *lines = report.splitlines()
        assert "3 of 3" not in head and "2 of 2 cgroups" in head
        assert titles.split()[:3] == ["cgroup", "acc/s", "hit%"]
        assert [line.split()[0] for line in lines] == ["/cold", "/tight"]
    assert "\x1b" not in told["text"]


def test_a_terminal_shows_what_fits_and_ctrl_c_ends_it(steps: dict[str, Told]) -> None:
    told = steps["live"]
    assert told["status"] == 0
    frame = told["drawn"].split("\x1b[J")[1]
    assert frame.startswith("\x1b[H")
    lines = frame.removeprefix("\x1b[H").split("\x1b[K\r\n")[:-1]
    assert len(lines) == 5 and all(0 < len(line) <= 60 for line in lines)
    assert lines[1].startswith("cgroup") and lines[2].startswith("/")


def test_nothing_is_left_behind(steps: dict[str, Told]) -> None:
    during, objects = steps["killed"]["during"], steps["objects"]
    assert during["programs"] > objects["before"]["programs"]
    assert during["links"] > objects["before"]["links"]
    assert objects["after"] == objects["before"]
    assert steps["left"]["same"]


def test_an_agent_beside_it_counts_the_same_and_goes_on(steps: dict[str, Told]) -> None:
    told = steps["beside"]
    assert told["names"] == ["/t-a"]
    first, second = told["agents"]
    # The process reads a few pages of its own before it ends.
    assert told["seen"] == first == pytest.approx(AGENT_READS, abs=50)
    assert second - first == pytest.approx(AGENT_READS, abs=50)
    before, after = told["objects"]
    assert before == after and before["programs"] > 0


@pytest.mark.parametrize(
    ("step", "status", "words"),
    [
        ("no match", 2, "--cgroup nope-*: matches none of the"),
        ("no version 2", 1, "no cgroup v2 hierarchy is mounted"),
        ("no types", 1, "the kernel describes no types (CONFIG_DEBUG_INFO_BTF)"),
        ("no root", 1, "takes root"),
    ],
)
def test_a_missing_requirement_is_named_in_one_line(
    steps: dict[str, Told], step: str, status: int, words: str
) -> None:
    told = steps[step]
    assert (told["status"], told["output"]) == (status, ""), told
    assert words in told["errors"] and told["errors"].count("\n") == 1, told


@pytest.mark.parametrize("line", sorted({one.line for one in cachestats()}))
def test_examples_of_the_documentation_work(steps: dict[str, Told], line: str) -> None:
    told = steps[f"documented: {line}"]
    assert told["status"] == 0, told
    assert told["output"], told
    if "--json" in line:
        assert all(json.loads(one)["cgroups"] for one in told["output"].splitlines())
