# SPDX-License-Identifier: Apache-2.0
"""The peer: libcachesim from PyPI, run in its fastest way.

A whole trace is one call into its C code, which reads a memory-mapped oracleGeneral file and
simulates one cache. Object sizes are ignored, so a size is a number of objects.
"""

import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .context import Context, SkippedError

VERSION = "0.3.5"
# Maps each policy folder to the peer's class for the same algorithm.
CLASSES = {
    "fifo": "FIFO",
    "lru": "LRU",
    "clock": "Clock",
    "sieve": "Sieve",
    "arc": "ARC",
    "s3fifo": "S3FIFO",
    "twoq": "TwoQ",
    "lfu": "LFU",
    "lirs": "LIRS",
    "wtinylfu": "WTinyLFU",
    "lhd": "LHD",
}
HASH_POWERS = (17, 18, 20, 24)
CALIBRATION_REQUESTS = 4_000_000
CALIBRATION_RUNS = 2


class Peer:
    """The peer with one trace open.

    Times are seconds for the creation of the cache and the one call.
    """

    def __init__(self, trace: Path) -> None:
        if find_spec("libcachesim") is None:
            raise SkippedError("libcachesim is not installed (scripts/setup bench)")
        if version("libcachesim") != VERSION:
            raise SkippedError(f"libcachesim is {version('libcachesim')}, not {VERSION}")
        import libcachesim  # noqa: PLC0415  an optional dependency
        from libcachesim import libcachesim_python  # noqa: PLC0415

        self._library: Any = libcachesim
        self._native: Any = libcachesim_python
        self._reader: Any = libcachesim.TraceReader(
            str(trace),
            libcachesim.TraceType.ORACLE_GENERAL_TRACE,
            libcachesim.ReaderInitParam(ignore_obj_size=True),
        )
        self.hash_power = HASH_POWERS[-1]

    def _simulate(self, create: Any, requests: int) -> tuple[float, float]:
        self._reader.reset()
        start = time.perf_counter()
        cache = create()
        native = getattr(cache, "_cache", cache)
        miss_ratio, _ = self._native.c_process_trace(native, self._reader._reader, 0, requests)
        return time.perf_counter() - start, float(miss_ratio)

    def simulate(self, policy: str, size_pages: int, requests: int = -1) -> tuple[float, float]:
        """Return (seconds, miss ratio) of the class for `policy`, including reading the trace."""
        make = getattr(self._library, CLASSES[policy])
        return self._simulate(lambda: make(size_pages, hashpower=self.hash_power), requests)

    def read_seconds(self, size_pages: int) -> float:
        """Return the seconds to read and decode the trace.

        The `nop` cache ignores requests.
        """
        parameters = self._native.CommonCacheParams(
            cache_size=size_pages,
            default_ttl=86400,
            hashpower=self.hash_power,
            consider_obj_metadata=False,
        )
        return self._simulate(lambda: self._native.nop_init(parameters), -1)[0]

    def calibrate(self, context: Context, size_pages: int) -> None:
        """Choose the initial hash table that makes its LRU fastest at this size.

        The default of the wheel, 2^24 buckets, is far too large for the caches of a processor.
        """
        seconds: dict[int, float] = {}
        for power in HASH_POWERS * CALIBRATION_RUNS:
            self.hash_power = power
            took, _ = self.simulate("lru", size_pages, CALIBRATION_REQUESTS)
            seconds[power] = min(took, seconds.get(power, took))
        self.hash_power = min(seconds, key=seconds.__getitem__)
        context.say(f"libcachesim is fastest with 2^{self.hash_power} buckets")
