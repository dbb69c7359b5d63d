# SPDX-License-Identifier: Apache-2.0
"""Nodes of four tenants that replay traces, each with memory for all pages that it ever reads.

A tenant reads its whole trace for a minute, and then a part of it repeatedly, which is its regime
from then on. Pages read before stay in its page cache, since there is memory for all of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from experiments.autopilot_simulated.rig import Setup, Tenant
from experiments.autopilot_simulated.tenants import (
    PAGE_BYTES,
    further_traces,
    groups,
    pages_of,
    replayed,
    traces,
    write,
)

PAGES = range(1_000, 20_001)
"""Allowed numbers of distinct pages per trace, so that a node replays each several times."""
SERVICE_US = 200.0
READ_US = 400.0
WHOLE_S = 60.0
PART = 1 / 3
"""Share of a trace that a tenant reads after the first minute, from its seed's starting point on.
"""
MARGIN_PAGES = 256
"""Memory besides the pages that are read. A floor takes as much."""


def nodes(folder: Path | None) -> list[list[Path]]:
    """Return the traces of each node: those that the project recorded, and those in `folder`."""
    return groups([one for one in traces(folder or further_traces()) if pages_of(one) in PAGES])


def setup(trace_files: Sequence[Path], seed: int, seconds: float, folder: Path) -> Setup:
    """Return a node on which nothing is evicted at first.

    `folder` receives the traces of its tenants.
    """
    tenants = [_with_peak(replayed(one, seed, folder, SERVICE_US), one) for one in trace_files]
    budget = sum(one.limit_bytes for one in tenants)
    return Setup(tenants, budget, seconds, read_us=READ_US, seed=seed)


def _with_peak(tenant: Tenant, trace: Path) -> Tenant:
    limit_bytes = (pages_of(trace) + MARGIN_PAGES) * PAGE_BYTES
    whole = tenant.phases[0]["source"]
    path = Path(whole["path"])
    keys = np.fromfile(path, "<u8")
    part = path.with_suffix(".part.u64")
    write(keys[: max(1, int(keys.size * PART))], part)
    phases = [
        {"seconds": WHOLE_S, "source": whole},
        {"source": {"kind": "trace", "path": str(part)}},
    ]
    return replace(tenant, limit_bytes=limit_bytes, concurrency=1, phases=phases)
