# SPDX-License-Identifier: Apache-2.0
"""The sampler on Debian kernels of other releases: it counts every access, to the page.

The kernels are those of `bpf/sampler/kernels/README.md`; test_stock.py covers this release's own.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cachepilot import agent
from cachepilot.vm import Machine, Result, run
from cachepilot.vm.machine import SUITES

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "kernel" / "build"
MIB = 1 << 20
STEPS = ("random", "whole", "elsewhere", "removes", "writes", "sends", "reclaims")
SCRIPT = '"$1" doctor --dir /mnt/scratch --json; exec /usr/bin/python3 "$@"'
STRAY = 3
"""Page faults of Python itself, whose code may have to be read again."""

Told = dict[str, Any]


@pytest.fixture(scope="module", params=SUITES[1:])
def result(
    machines: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Result:
    """Return what one boot of a kernel printed: the doctor's report and a line for each step."""
    kernel = str(request.param)
    built = subprocess.run([str(BUILD), kernel], capture_output=True, text=True, check=False)
    if built.returncode != 0:
        pytest.skip(f"{kernel} cannot be had: {built.stderr.strip().splitlines()[-1]}")
    folder = tmp_path_factory.mktemp(kernel)
    program = agent.find(os.environ)
    machine = Machine(
        kernel=kernel,
        cpus=1,
        shares=(folder,),
        disk_bytes=256 * MIB,
        environment=agent.environment_for(program, os.environ),
        timeout_seconds=1200,
    )
    guest = [HERE / "sampler_guest.py", program, folder, "programs", *STEPS]
    script = SCRIPT.replace('"$1"', f'"{program}"')
    answer = run(machine, ["/bin/sh", "-c", script, "sh", *map(str, guest)])
    assert answer.returncode == 0, answer.output[-2000:] + answer.errors
    return answer


@pytest.fixture(scope="module")
def doctor(result: Result) -> Told:
    """Return the checks of the doctor by name."""
    report, _ = json.JSONDecoder().raw_decode(result.output)
    return {check["name"]: check for check in report["checks"]}


@pytest.fixture(scope="module")
def steps(result: Result) -> dict[str, Told]:
    lines = (line for line in result.output.splitlines() if line.startswith('{"step"'))
    return {told["step"]: told for told in map(json.loads, lines)}


def test_only_what_takes_the_patches_is_missing(doctor: Told) -> None:
    missing = {name for name, check in doctor.items() if check["status"] != "works"}
    # The machine runs without systemd.
    assert missing == {"cache_ext", "policies", "systemd"}


def test_nothing_is_lost(steps: dict[str, Told]) -> None:
    assert set(steps) == set(STEPS)
    for told in steps.values():
        assert told["missing"] == []
        assert told["dropped_events"] == told["unsampled_pages"] == 0
        assert told["records"] == told["accesses"]


def test_accesses_are_counted_to_the_page(steps: dict[str, Told]) -> None:
    expected = {"random": 2000, "whole": 4096, "elsewhere": 200, "writes": 300, "sends": 16}
    seen = {step: steps[step]["accesses"] - steps[step]["mmap_accesses"] for step in expected}
    assert seen == expected
    assert 0 <= steps["random"]["misses"] - 1000 <= STRAY
    assert steps["whole"]["read_calls"] == 1


def test_large_folios_count_for_all_of_their_pages(steps: dict[str, Told]) -> None:
    # Two files of 300 pages, each written by one call.
    assert steps["removes"]["write_accesses"] == 600
    assert 0 <= steps["removes"]["misses"] - 600 <= STRAY
    told = steps["reclaims"]
    assert told["evictions"] == told["stat"]["pgsteal"] >= 2048
    assert told["refaults"] == told["stat"]["workingset_refault_file"] > 1000


def test_pages_of_others_and_removed_pages_are_reported(steps: dict[str, Told]) -> None:
    assert steps["elsewhere"]["elsewhere"] == 100
    assert steps["removes"]["removals"] == 450
