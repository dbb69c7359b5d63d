# SPDX-License-Identifier: Apache-2.0
"""A swap from lru to lru under load: the miss ratio before and after."""

import json
from itertools import pairwise
from statistics import median
from typing import Any

from experiments.kernel_guest import streams
from experiments.kernel_guest.compiled import program
from experiments.kernel_guest.guest_run import GuestError, Step, run_steps
from experiments.shared.rows import Row

from .context import MIB, PAGE_BYTES, SCRATCH, Context, SkippedError

IOPS = 2500
CGROUP_MIB = 32
FILE_MIB = 128
WINDOW_NS = 10_000_000_000
GOAL = 0.01
FILE = f"{SCRATCH}/swapped"


def _at(ticks: list[dict[str, Any]], ns: int) -> tuple[float, float]:
    """Return accesses and misses at a time, interpolated between the two lines around it."""
    for before, after in pairwise(ticks):
        if before["ns"] <= ns <= after["ns"]:
            share = (ns - before["ns"]) / (after["ns"] - before["ns"])
            added = [line["memory.cache_ext"]["added"] for line in (before, after)]
            accesses = [line["accesses"] for line in (before, after)]
            return (
                accesses[0] + share * (accesses[1] - accesses[0]),
                added[0] + share * (added[1] - added[0]),
            )
    raise GuestError("swap: the stream ended before the last swap was measured")


def differences(text: str) -> list[float]:
    """Return, for every swap, the miss ratio of the ten seconds after it minus that before it."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    ticks = [line for line in lines if line["at"] in ("warm", "tick", "end")]
    ticks.sort(key=lambda line: line["ns"])
    found = []
    for swap in (line["ns"] for line in lines if line["at"] == "swap"):
        points = [_at(ticks, swap + offset) for offset in (-WINDOW_NS, 0, WINDOW_NS)]
        before, after = (
            (end[1] - begin[1]) / (end[0] - begin[0]) for begin, end in pairwise(points)
        )
        found.append(after - before)
    return found


def run(context: Context) -> list[Row]:
    """Return `kernel.swap_disturbance`: the largest of three swaps."""
    if not context.policies:
        raise SkippedError("needs the patched kernel")
    shape = streams.Shape(pages=FILE_MIB * MIB // PAGE_BYTES, accesses=1_500_000)
    path = context.stream("swapped", streams.zipf(shape))
    command = f"""
	fresh_cgroup {CGROUP_MIB * MIB}
	swap_under_load {program("play_stream")} --file {FILE} --stream {path} --cgroup $BENCH \\
		--threads 4 --warmup 60000 --every-ms 250
"""
    guest = context.guest("swap", IOPS, [f"make_file {FILE} {FILE_MIB * MIB}"])
    outputs = run_steps(guest, [Step("swap", command)])
    if "swap" not in outputs:
        return []
    changes = [abs(change) for change in differences(outputs["swap"])]
    return [
        Row(
            "kernel.swap_disturbance",
            max(changes),
            "miss ratio",
            goal=GOAL,
            reference="lru to lru, ten seconds before and after; the largest, median beside",
            reference_value=median(changes),
            runs=len(changes),
            spread=(min(changes), max(changes)),
        )
    ]
