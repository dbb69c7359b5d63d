# SPDX-License-Identifier: Apache-2.0
"""The traces: recorded ones with their reference miss ratios, and a synthetic one for speed."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .context import ROOT, Context, SkippedError, trace_folder

CHUNK = 1 << 20
# Packed record of libCacheSim's oracleGeneral format: time, id, size, next access.
ORACLE_GENERAL = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
NEVER_AGAIN = -2


@dataclass(frozen=True)
class Recorded:
    """A recorded trace; `sizes_pages` are 1, 10 and 30% of its footprint, without duplicates."""

    name: str
    path: Path
    requests: int
    footprint_pages: int
    sizes_pages: tuple[int, ...]


@dataclass(frozen=True)
class Reference:
    """A cell of policies.tsv: the miss ratio of an independent simulator."""

    trace: str
    percent: int
    size_pages: int
    policy: str
    miss_ratio: float


def _table(name: str) -> list[dict[str, str]]:
    with (trace_folder() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def references() -> list[Reference]:
    """Return every cell of policies.tsv that is not empty. Policies are in lower case."""
    return [
        Reference(row["name"], int(row["pct"]), int(row["size"]), column.lower(), float(text))
        for row in _table("policies.tsv")
        for column, text in row.items()
        if column not in ("name", "pct", "size") and text
    ]


def recorded(context: Context) -> list[Recorded]:
    """Return the recorded traces of at most `max_requests` requests."""
    sizes: dict[str, set[int]] = {}
    for cell in references():
        sizes.setdefault(cell.trace, set()).add(cell.size_pages)
    found = [
        Recorded(
            name=row["name"],
            path=trace_folder() / f"{row['name']}.u64.zst",
            requests=int(row["requests"]),
            footprint_pages=int(row["distinct"]),
            sizes_pages=tuple(sorted(sizes[row["name"]])),
        )
        for row in _table("index.tsv")
    ]
    found = [trace for trace in found if trace.requests <= context.max_requests]
    if not found:
        raise SkippedError("no recorded trace is short enough")
    return found


def _page_hash(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA '14), a bijection."""
    x = keys + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


def zipf(requests: int, pages: int) -> NDArray[np.uint64]:
    """Draw independently from `pages` pages with popularity 1 / rank; keys are hashed ranks.

    The random number of a request is its hashed number, so the trace is the same everywhere.
    """
    cumulative = np.cumsum(1.0 / np.arange(1, pages + 1))
    keys = np.empty(requests, dtype=np.uint64)
    for start in range(0, requests, CHUNK):
        count = min(CHUNK, requests - start)
        numbers = np.arange(start, start + count, dtype=np.uint64)
        draws = _page_hash(numbers ^ np.uint64(1 << 40)).astype(np.float64) / 2.0**64
        # Looking up in ascending order keeps the binary searches in the processor's caches.
        order = np.argsort(draws)
        ranks = np.searchsorted(cumulative, draws[order] * cumulative[-1])
        keys[start + order] = _page_hash(ranks.astype(np.uint64))
    return keys


def _cached(context: Context, suffix: str, write: Callable[[Path], None]) -> Path:
    """Return the file under build/, which is written now if it is missing."""
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"zipf-1.0-{context.zipf_requests}-{context.zipf_pages}{suffix}"
    if not path.is_file():
        context.say(f"writing {path.relative_to(ROOT)}")
        partial = path.with_suffix(".partial")
        write(partial)
        partial.replace(path)
    return path


def zipf_file(context: Context) -> Path:
    """Return the synthetic trace as a `.u64` file."""
    return _cached(
        context,
        ".u64",
        lambda path: zipf(context.zipf_requests, context.zipf_pages).tofile(path),
    )


def zipf_oracle_general(context: Context) -> Path:
    """Return the trace in the format that libcachesim reads fastest, with all objects of size 1."""
    keys = np.fromfile(zipf_file(context), dtype=np.uint64)

    def write(path: Path) -> None:
        with path.open("wb") as file:
            for start in range(0, len(keys), CHUNK):
                part = keys[start : start + CHUNK]
                records = np.zeros(len(part), dtype=ORACLE_GENERAL)
                records["id"] = part
                records["size"] = 1
                records["next"] = NEVER_AGAIN
                records.tofile(file)

    return _cached(context, ".oracleGeneral", write)
