# SPDX-License-Identifier: Apache-2.0
"""Simulated page caches, miss ratio curves and traces for use from Python.

The types, shapes and units are in `_models.pyi`.

    >>> from cachepilot.simulator import Cache
    >>> cache = Cache("lirs", size_pages=4096)
    >>> cache.access(7), cache.access(7)
    (False, True)
"""

from cachepilot._models import (
    Cache,
    CacheStats,
    Curve,
    ModelsError,
    SimResult,
    TraceOptions,
    mrc_exact,
    mrc_minisim,
    mrc_shards,
    simulate,
    size_grid,
    stack_distances,
    synthetic_keys,
    trace_convert,
    trace_generate,
    trace_keys,
)

__all__ = [
    "Cache",
    "CacheStats",
    "Curve",
    "ModelsError",
    "SimResult",
    "TraceOptions",
    "mrc_exact",
    "mrc_minisim",
    "mrc_shards",
    "simulate",
    "size_grid",
    "stack_distances",
    "synthetic_keys",
    "trace_convert",
    "trace_generate",
    "trace_keys",
]
