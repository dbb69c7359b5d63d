# SPDX-License-Identifier: Apache-2.0
"""Throughput of full simulation, ours against the peer's, alternating in one process.

Both sides are timed around the creation of the cache and one call for the whole trace, with one
thread. `speed` is the whole job as a user has it: the peer as it is installed, with each side
reading its own trace file. `speed_tuned` is the hardest case for us: the peer's hash table has the
size that is fastest here, our side reads an array in memory, and the time that reading alone takes
the peer (with its `nop` cache) is also subtracted.
"""

from collections import defaultdict
from collections.abc import Iterable
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
# A scoring policy reads hundreds of pages per eviction request. With requests for one page, it
# would be a different algorithm from the one that is loaded.
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


def _run_ours(times: Times, policy: str, source: str | NDArray[np.uint64], size_pages: int) -> None:
    start = perf_counter()
    (result,) = _models.simulate(source, [policy], [size_pages], batch=_batch(policy), threads=1)
    times.ours.append(perf_counter() - start)
    times.miss_ratio = result.miss_ratio
    times.bytes_per_page = result.bytes_per_page


def _open_peer(context: Context) -> Peer | None:
    try:
        return Peer(zipf_oracle_general(context))
    except SkippedError as reason:
        context.say(f"no ratios: {reason}")
        return None


def _measure(
    context: Context,
    source: str | NDArray[np.uint64],
    size_pages: int,
    peer: Peer | None,
    policies: Iterable[str],
) -> dict[str, Times]:
    policies = list(policies)
    found: defaultdict[str, Times] = defaultdict(Times)
    for run in range(context.runs):
        reader = peer.read_seconds(size_pages) if peer else 0.0
        for policy in policies:
            times = found[policy]
            _run_ours(times, policy, source, size_pages)
            if peer and policy in CLASSES:
                seconds, times.peer_miss_ratio = peer.simulate(policy, size_pages)
                times.peer.append(seconds)
                times.reader.append(reader)
        context.say(f"  speed: run {run + 1} of {context.runs}")
    return found


def _ratio_row(
    metric: str, policy: str, times: Times, peer: list[float], requests: int, said: str
) -> Row:
    """Return the speed-up over `peer` seconds, one value per run."""
    reference = (
        f"libcachesim {VERSION} {CLASSES[policy]}, same run, {said}, requests/s; "
        f"miss ratio {times.peer_miss_ratio:.4f}, ours {times.miss_ratio:.4f}"
    )
    return Row.of_runs(
        f"models.{metric}.{policy}",
        [theirs / ours for theirs, ours in zip(peer, times.ours, strict=True)],
        "ratio",
        better="higher",
        goal=SPEEDUP_GOAL,
        reference=reference,
        reference_value=requests / median(peer),
    )


def run(context: Context) -> list[Row]:
    """Return speed-ups over the peer as installed, throughput, and memory per page."""
    file = zipf_file(context)
    size_pages = int(context.zipf_pages * SIZE_SHARE)
    peer = _open_peer(context)
    found = _measure(context, str(file), size_pages, peer, manifest.policies())
    on_lists = list_policies()
    requests = context.zipf_requests
    rows = []
    for policy, times in found.items():
        if times.peer:
            said = "as installed, whole run"
            rows.append(_ratio_row("speedup", policy, times, times.peer, requests, said))
        rows.append(
            Row.of_runs(
                f"models.mreq_s.{policy}",
                [requests / seconds / 1e6 for seconds in times.ours],
                "Mreq/s",
                better="higher",
                goal=MREQ_S_GOAL if policy in MREQ_S_POLICIES else None,
                reference=f"Zipf(1.0), batch {_batch(policy)}, reading the file included",
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
    return rows


def run_tuned(context: Context) -> list[Row]:
    """Return speed-ups over the peer with its best hash table, with and without its reader."""
    keys = np.fromfile(zipf_file(context), dtype=np.uint64)
    size_pages = int(context.zipf_pages * SIZE_SHARE)
    peer = _open_peer(context)
    if peer is None:
        raise SkippedError("needs libcachesim")
    peer.calibrate(context, size_pages)
    found = _measure(context, keys, size_pages, peer, CLASSES)
    rows = []
    readers: list[float] = []
    for policy, times in found.items():
        readers = times.reader
        alone = [whole - reader for whole, reader in zip(times.peer, times.reader, strict=True)]
        said = "best hash table"
        rows.append(_ratio_row("speedup_tuned", policy, times, times.peer, len(keys), said))
        said = "best hash table, reader subtracted"
        rows.append(_ratio_row("speedup_tuned_alone", policy, times, alone, len(keys), said))
    nanoseconds = [seconds / len(keys) * 1e9 for seconds in readers]
    rows.append(Row.of_runs("models.peer_reader_ns", nanoseconds, "ns"))
    return rows
