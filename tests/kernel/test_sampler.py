# SPDX-License-Identifier: Apache-2.0
"""Both samplers on the patched kernel: what they count and record of known accesses."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cachepilot import agent
from cachepilot.vm import Machine, run

HERE = Path(__file__).parent
MIB = 1 << 20
HEADER_BYTES, RECORD = 64, struct.Struct("<QQQQIIII")
FILE_PAGES = 4096
HUGE_PAGES, HUGE_READS = 80 << 10, 4
# What the programs look at in one call, in parts of consecutive pages (bpf/sampler/pages.h), and
# what the kernel looks at before it calls them (CX_MAX_SAMPLED).
LOOKED_AT_PAGES, CHUNK_PAGES, KERNEL_PAGES = 65536, 256, 1024
MASK = (1 << 64) - 1

pytestmark = pytest.mark.usefixtures("patched_kernel")
Told = dict[str, Any]


# Reads that the kernel has not given a duration yet: one in 61 of a CPU's reads is timed
# (CX_CLOCK_EVERY in its watch.c), and that one may belong to another cgroup.
UNCLOCKED = 4 * 61


@pytest.fixture(scope="module", params=["programs", "kernel"])
def counting(request: pytest.FixtureRequest) -> str:
    """Return who counts: the sampler's programs or the kernel. Both must report the same."""
    return str(request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, counting: str) -> Path:
    """Return the folder of the guest's traces."""
    return tmp_path_factory.mktemp(f"traces-{counting}")


@pytest.fixture(scope="module")
def steps(folder: Path, counting: str) -> dict[str, Told]:
    """Return what sampler_guest.py printed, by step."""
    program = agent.find(os.environ)
    machine = Machine(cpus=1, disk_bytes=256 * MIB, shares=(folder,), environment=dict(os.environ))
    script = HERE / "sampler_guest.py"
    result = run(machine, ["/usr/bin/python3", str(script), str(program), str(folder), counting])
    assert result.returncode == 0, result.errors
    lines = map(json.loads, result.output.splitlines())
    return {line["step"]: line for line in lines}


def records(file: Path) -> Iterator[tuple[int, ...]]:
    """Yield time, cgroup, inode, index, device, generation, task and flags of each record."""
    yield from RECORD.iter_unpack(file.read_bytes()[HEADER_BYTES:])


def sample_hash(record: tuple[int, ...]) -> int:
    """Return the hash that samplers compare with their threshold.

    docs/reference/trace_format.md defines it.
    """
    _, _, inode, index, _, generation, _, _ = record
    x = (index + ((inode ^ generation) << 32)) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    return ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK


# accesses, misses, readahead pages, those through mappings, writes, read calls
EXPECTED = {
    "random": (2000, 1000, 0, 0, 0, 2000),
    "sequential": (4096, 1, 4095, 0, 0, 4096),
    "mapped": (512, 512, 0, 512, 0, 0),
    "writes": (300, 300, 0, 0, 300, 0),
    "forgets": (4096, 1, 4095, 0, 0, 4096),
    "shared": (1, 1, 0, 0, 0, 1),
    "elsewhere": (200, 100, 0, 0, 0, 200),
}


@pytest.mark.parametrize("step", EXPECTED)
def test_accesses_are_counted_to_the_page(steps: dict[str, Told], step: str) -> None:
    told = steps[step]
    keys = ("accesses", "misses", "readahead_pages", "mmap_accesses", "write_accesses")
    assert (*(told[key] for key in keys), told["read_calls"]) == EXPECTED[step]


def test_everything_is_seen_and_nothing_lost(steps: dict[str, Told], counting: str) -> None:
    unclocked = UNCLOCKED if counting == "kernel" else 0
    for told in steps.values():
        assert told["missing"] == []
        assert told["dropped_events"] == told["untracked_calls"] == 0
        assert told["unsampled_pages"] == 0 or told["step"] == "huge"
        assert 0 <= told["read_calls"] - sum(told["read_latency"]) <= unclocked
        if told["step"] not in ("sampled", "huge"):
            assert told["records"] == told["accesses"]


def bucket_us(bucket: int) -> float:
    """Return the shortest call of a bucket, in microseconds (see Counters.read_latency_total)."""
    return (4 + bucket % 4) * float(2 ** (bucket // 4)) / 4


def test_every_page_of_a_large_read_is_recorded(steps: dict[str, Told]) -> None:
    # Four times what the kernel looks at in one call; the test above checks that nothing was lost.
    assert steps["whole"]["read_calls"] == 1
    assert steps["whole"]["records"] == steps["whole"]["accesses"] == FILE_PAGES


@pytest.mark.usefixtures("steps")
def test_each_read_beyond_the_bound_is_sampled_from_another_place(folder: Path) -> None:
    calls: dict[int, list[int]] = {}
    for record in records(folder / "huge.cptrace"):
        calls.setdefault(record[0], []).append(record[3] // CHUNK_PAGES)
    # The kernel looks at the first pages of a call itself, each at a time of its own.
    chunks = [chunks for chunks in calls.values() if len(chunks) > 1000]
    assert len(chunks) == HUGE_READS
    # One page in 16 is in the sample, so each part that is looked at has pages in it.
    assert {len(set(seen)) for seen in chunks} == {LOOKED_AT_PAGES // CHUNK_PAGES}
    assert len({seen[0] for seen in chunks}) > 1
    assert len(set().union(*chunks)) > LOOKED_AT_PAGES // CHUNK_PAGES


def test_pages_beyond_the_bound_are_counted_as_unsampled(
    steps: dict[str, Told], counting: str
) -> None:
    first = KERNEL_PAGES if counting == "kernel" else 0
    told = steps["huge"]
    assert told["accesses"] == HUGE_READS * HUGE_PAGES
    assert told["unsampled_pages"] == HUGE_READS * (HUGE_PAGES - first - LOOKED_AT_PAGES)


def test_pages_that_are_charged_to_others_are_reported(steps: dict[str, Told]) -> None:
    assert {step: told["elsewhere"] for step, told in steps.items() if told["elsewhere"]} == {
        "elsewhere": 100
    }


def test_removed_pages_are_reported(steps: dict[str, Told]) -> None:
    # Two files of 300 pages each: one is removed, and half of the other is cut off.
    assert steps["removes"]["removals"] == 450
    assert steps["forgets"]["removals"] == FILE_PAGES
    assert all(steps[step]["removals"] == 0 for step in ("random", "reclaims", "shared"))


def test_the_histogram_adds_up_to_the_time_spent(steps: dict[str, Told]) -> None:
    for told in steps.values():
        calls = list(enumerate(told["read_latency"]))
        least = sum(count * bucket_us(bucket) for bucket, count in calls if bucket)
        most = sum(count * bucket_us(bucket + 1) for bucket, count in calls)
        assert least <= told["read_time_ns"] / 1000 <= most + len(calls)


def test_a_page_is_brought_by_demand_or_by_readahead(steps: dict[str, Told]) -> None:
    large, sends = steps["large"], steps["sends"]
    # The call at the end of the file reads its last three pages again.
    assert large["accesses"] == FILE_PAGES + 3 and large["read_calls"] == 65
    assert large["misses"] + large["readahead_pages"] == FILE_PAGES
    assert large["misses"] >= 64
    assert (sends["accesses"], sends["misses"]) == (16, 16)


def test_evictions_and_refaults_are_the_kernels_own(steps: dict[str, Told]) -> None:
    told = steps["reclaims"]
    assert told["evictions"] == told["stat"]["pgsteal"] >= 2048
    assert told["refaults"] == told["stat"]["workingset_refault_file"] > 1000
    assert steps["forgets"]["evictions"] == 0


def test_faults_are_the_kernels_own(steps: dict[str, Told]) -> None:
    assert steps["mapped"]["stat"]["pgmajfault"] == 512


@pytest.mark.usefixtures("steps")
def test_a_trace_has_each_access(folder: Path) -> None:
    found = list(records(folder / "sequential.cptrace"))
    assert [record[3] for record in found] == list(range(FILE_PAGES))
    assert len({record[1:3] + record[4:7] for record in found}) == 1
    times = [record[0] for record in found]
    assert times == sorted(times)
    assert {record[7] for record in records(folder / "writes.cptrace")} == {1}


def test_a_sample_has_all_accesses_of_its_pages_and_no_other(
    steps: dict[str, Told], folder: Path
) -> None:
    everything = list(records(folder / "random.cptrace"))
    below = [r[2:6] for r in everything if sample_hash(r) <= 1 << 60]
    sampled = [record[2:6] for record in records(folder / "sampled.cptrace")]
    assert sampled == below
    assert steps["sampled"]["records"] == len(sampled) > 50
    assert steps["sampled"]["accesses"] == 2000


@pytest.mark.usefixtures("steps")
def test_a_recording_is_a_trace_that_curves_are_made_of(folder: Path) -> None:
    command = [sys.executable, "-m", "cachepilot.cli", "mrc", "--json"]
    trace = folder / "packed.cptrace.zst"
    done = subprocess.run([*command, str(trace)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
