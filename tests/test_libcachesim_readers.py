# SPDX-License-Identifier: Apache-2.0
"""Compare the readers with those of libcachesim: a file must give the same misses of an LRU cache.

Without libcachesim (`scripts/setup bench`) the tests are skipped. The contents of the formats are
derived by hand in models/tests/trace/foreign.rs.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cachepilot.simulator import TraceOptions, simulate

peer: Any = pytest.importorskip("libcachesim")

REQUESTS = 20_000
SIZES = (16, 200, 900)
SECTOR_BYTES = 512
PAGE_SECTORS = 8
LCS_MAGIC = 0x123456789ABCDEF0
LCS_HEADER_BYTES = 8192
WHOLE = TraceOptions(whole_requests=True)


def blocks() -> NDArray[np.uint64]:
    """Return skewed block numbers, shape (REQUESTS,)."""
    random = np.random.default_rng(5)
    skewed: NDArray[np.uint64] = (random.zipf(1.2, REQUESTS) % 3000).astype(np.uint64)
    return skewed


def vscsi(version: int, sectors: NDArray[np.uint64], lengths: NDArray[np.uint32]) -> bytes:
    """Return a vscsi file of this version; lengths are in bytes."""
    v1 = ["sn:u4", "len:u4", "entries:u4", "cmd:u2", "ver:u2", "lbn:u8", "ts:u8"]
    v2 = ["cmd:u2", "ver:u2", "sn:u4", "len:u4", "entries:u4", "lbn:u8", "ts:u8", "rt:u8"]
    fields = [tuple(field.split(":")) for field in (v1 if version == 1 else v2)]
    records = np.zeros(len(sectors), dtype=[(name, f"<{kind}") for name, kind in fields])
    records["ver"], records["cmd"] = version << 8, 40
    records["sn"], records["entries"] = np.arange(len(sectors)), 1
    records["lbn"], records["len"] = sectors, lengths
    records["ts"] = 1_000_000 * np.arange(len(sectors))
    return records.tobytes()


def lcs(version: int, ids: NDArray[np.uint64]) -> bytes:
    """Return an lcs file of version 1, 2 or 3."""
    size = "<i8" if version == 3 else "<u4"
    more = {1: [], 2: [("op", "<u4")], 3: [("op", "<u4"), ("ttl", "<u4")]}[version]
    fields = [("time", "<u4"), ("id", "<u8"), ("size", size), *more, ("next", "<i8")]
    records = np.zeros(len(ids), dtype=fields)
    records["time"], records["id"] = np.arange(len(ids)) // 10, ids
    records["size"], records["next"] = 4096, -1
    header = np.zeros(LCS_HEADER_BYTES // 8, dtype="<u8")
    header[[0, -1]], header[1], header[3] = LCS_MAGIC, version, len(ids)
    return header.tobytes() + records.tobytes()


def their_misses(path: Path, kind: Any, size: int, **fields: Any) -> int:
    """Return the misses of libcachesim's LRU with its own reader. `size` is a number of objects."""
    csv = {name: fields.pop(name) for name in ("time_field", "obj_id_field") if name in fields}
    parameters = peer.ReaderInitParam(ignore_obj_size=True, **fields)
    for name, value in csv.items():
        setattr(parameters, name, value)
    reader = peer.TraceReader(str(path), kind, parameters)
    cache = peer.LRU(size)
    native = getattr(cache, "_cache", cache)
    ratio, _ = peer.libcachesim_python.c_process_trace(native, reader._reader, 0, -1)
    return round(float(ratio) * REQUESTS)


def our_misses(path: Path, size: int, options: TraceOptions | None = None) -> int:
    (result,) = simulate(str(path), ["lru"], [size], batch=1, options=options)
    assert result.requests == REQUESTS
    return result.misses


def compare(path: Path, kind: Any, options: TraceOptions | None = None, **fields: Any) -> None:
    ours = [our_misses(path, size, options) for size in SIZES]
    assert ours == [their_misses(path, kind, size, **fields) for size in SIZES]
    assert ours[0] > ours[1] > ours[2] > len(np.unique(blocks())) // 2


@pytest.mark.parametrize("version", [1, 2])
def test_vscsi_whole(tmp_path: Path, version: int) -> None:
    path = tmp_path / "a.vscsi"
    lengths = np.random.default_rng(1).integers(0, 1 << 20, REQUESTS).astype(np.uint32)
    path.write_bytes(vscsi(version, blocks(), lengths))
    compare(path, peer.TraceType.VSCSI_TRACE, WHOLE)


@pytest.mark.parametrize("version", [1, 2])
def test_vscsi_of_single_pages(tmp_path: Path, version: int) -> None:
    path = tmp_path / "a.vscsi"
    lengths = np.full(REQUESTS, PAGE_SECTORS * SECTOR_BYTES, dtype=np.uint32)
    path.write_bytes(vscsi(version, blocks() * np.uint64(PAGE_SECTORS), lengths))
    compare(path, peer.TraceType.VSCSI_TRACE)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_lcs(tmp_path: Path, version: int) -> None:
    path = tmp_path / "a.lcs"
    path.write_bytes(lcs(version, blocks()))
    compare(path, peer.TraceType.LCS_TRACE)


def test_blocks_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.lirs"
    np.savetxt(path, blocks(), fmt="%d")
    compare(path, peer.TraceType.PLAIN_TXT_TRACE)


def test_msr_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.msr"
    lengths = np.random.default_rng(1).integers(1, 1 << 20, REQUESTS)
    rows = zip(blocks() * np.uint64(SECTOR_BYTES), lengths, strict=True)
    lines = [f"{10**17 + i},hm,0,Read,{at},{length},5\n" for i, (at, length) in enumerate(rows)]
    path.write_text("".join(lines), "ascii")
    kind = peer.TraceType.CSV_TRACE
    header = {"has_header": False, "has_header_set": True, "obj_id_is_num_set": True}
    compare(path, kind, WHOLE, time_field=1, obj_id_field=5, **header)
