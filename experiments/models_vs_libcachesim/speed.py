# SPDX-License-Identifier: Apache-2.0
"""Throughput of full simulation, ours against the peer's, alternating in one process.

Both sides are timed around creation of the cache and one call for the whole trace, one thread.
Ours reads an array in memory; the peer reads its mapped file, and what reading alone takes it (its
`nop` cache) is subtracted before the ratio is taken.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from cachepilot import _models, manifest

from .context import Context, SkippedError, list_policies
from .peer import CLASSES, VERSION, Peer
from .rows import Row
from .traces import zipf_file, zipf_oracle_general

SIZE_SHARE = 0.1
SPEEDUP_GOAL = 3.0
MREQ_S_GOAL = 30.0
MREQ_S_POLICIES = ("fifo", "lru", "mru", "clock", "sieve", "arc", "s3fifo", "twoq")
BYTES_PER_PAGE_GOAL = 64.0
# A scoring policy reads hundreds of pages per eviction request: asked for one at a time it would
# be another algorithm than the one that is loaded.
SCORING_BATCH = 32


@dataclass
class Times:
    """Seconds of each run of one policy."""

    ours: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    reader: list[float] = field(default_factory=list)
    miss_ratio: float = 0.0
    peer_miss_ratio: float = 0.0
    bytes_per_page: float = 0.0


def _batch(policy: str) -> int:
    return SCORING_BATCH if "scoring" in manifest.policies()[policy].needs else 1


def _run_ours(times: Times, policy: str, keys: NDArray[np.uint64], size_pages: int) -> None:
    start = perf_counter()
    result = _models.simulate_keys(keys, policy, size_pages, batch=_batch(policy))
    times.ours.append(perf_counter() - start)
    times.miss_ratio = result.miss_ratio
    times.bytes_per_page = result.bytes_per_page


def _open_peer(context: Context, size_pages: int) -> Peer | None:
    try:
        peer = Peer(zipf_oracle_general(context))
    except SkippedError as reason:
        context.say(f"no ratios: {reason}")
        return None
    peer.calibrate(context, size_pages)
    return peer


def _measure(context: Context, keys: NDArray[np.uint64], size_pages: int) -> dict[str, Times]:
    peer = _open_peer(context, size_pages)
    found: defaultdict[str, Times] = defaultdict(Times)
    for run in range(context.runs):
        reader = peer.read_seconds(size_pages) if peer else 0.0
        for policy in manifest.policies():
            times = found[policy]
            _run_ours(times, policy, keys, size_pages)
            if peer and policy in CLASSES:
                seconds, times.peer_miss_ratio = peer.simulate(policy, size_pages)
                times.peer.append(seconds)
                times.reader.append(reader)
        context.say(f"  speed: run {run + 1} of {context.runs}")
    return found


def _ratio_rows(policy: str, times: Times, requests: int) -> list[Row]:
    """Speed-up without and with the time the peer takes to read its file."""
    alone = [peer - reader for peer, reader in zip(times.peer, times.reader, strict=True)]
    said = (
        f"libcachesim {VERSION} {CLASSES[policy]}, same run, reader subtracted, requests/s; "
        f"miss ratio {times.peer_miss_ratio:.4f}, ours {times.miss_ratio:.4f}"
    )
    rows = []
    for metric, seconds, reference, goal in (
        ("speedup", alone, said, SPEEDUP_GOAL),
        ("speedup_with_reader", times.peer, said.replace("subtracted", "included"), None),
    ):
        ratios = [peer / ours for peer, ours in zip(seconds, times.ours, strict=True)]
        rows.append(
            Row.of_runs(
                f"models.{metric}.{policy}",
                ratios,
                "ratio",
                better="higher",
                goal=goal,
                reference=reference,
                reference_value=requests / median(seconds),
            )
        )
    return rows


def run(context: Context) -> list[Row]:
    """Rows of speed-ups, of absolute throughput and of memory per page."""
    keys = np.fromfile(zipf_file(context), dtype=np.uint64)
    size_pages = int(context.zipf_pages * SIZE_SHARE)
    found = _measure(context, keys, size_pages)
    on_lists = list_policies()
    rows = []
    for policy, times in found.items():
        if times.peer:
            rows += _ratio_rows(policy, times, len(keys))
        rows.append(
            Row.of_runs(
                f"models.mreq_s.{policy}",
                [len(keys) / seconds / 1e6 for seconds in times.ours],
                "Mreq/s",
                better="higher",
                goal=MREQ_S_GOAL if policy in MREQ_S_POLICIES else None,
                reference=f"Zipf(1.0), batch {_batch(policy)}",
            )
        )
        rows.append(
            Row(
                f"models.bytes_per_page.{policy}",
                times.bytes_per_page,
                "bytes",
                goal=BYTES_PER_PAGE_GOAL if policy in on_lists else None,
                reference="nodes, index, ghosts and state, over the pages of the cache",
            )
        )
    readers = next((times.reader for times in found.values() if times.reader), [])
    if readers:
        nanoseconds = [seconds / len(keys) * 1e9 for seconds in readers]
        rows.append(Row.of_runs("models.peer_reader_ns", nanoseconds, "ns"))
    return rows
