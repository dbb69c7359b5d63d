# SPDX-License-Identifier: Apache-2.0
"""Tenants that replay traces, in groups that share a node."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from experiments.autopilot_simulated.rig import Tenant
from experiments.shared.rows import ROOT
from numpy.typing import NDArray

from cachepilot import _models

RECORDED = ROOT / "experiments" / "recorded_traces"
PAGE_BYTES = 4096
MEMORY_SHARE = 0.15
"""First memory of a tenant, as a share of its trace's distinct pages."""
PAGES_MIN = 512
GROUP = 4

Keys = NDArray[np.uint64]


def further_traces() -> Path | None:
    """Return a folder of traces beside the checkout, or None if there is none."""
    found = ROOT.parent / "shared" / "traces"
    return found if found.is_dir() else None


def traces(folder: Path | None) -> list[Path]:
    """Return the traces that the project recorded, and those in `folder`, by name."""
    found = sorted(RECORDED.glob("*.cptrace.zst"))
    if folder is not None:
        found += sorted(folder.glob("*.u64.zst"))
    return found


def name_of(trace: Path) -> str:
    """Return the name of a trace."""
    return trace.name.partition(".")[0]


def pages_of(trace: Path) -> int:
    """Return the number of distinct pages of a trace."""
    footprint: int = json.loads(_models.trace_info_json(str(trace)))["distinct_pages"]
    return footprint


def of_seed(keys: Keys, seed: int) -> Keys:
    """Return the trace from another start, with other page numbers.

    Different numbers make the agent sample different pages.
    """
    random = np.random.default_rng(seed)
    start = int(random.integers(keys.size))
    offset = np.uint64(random.integers(1 << 40))
    return np.roll(keys, -start) + offset


def write(keys: Keys, path: Path) -> None:
    """Write the keys as a trace of page ids."""
    keys.astype("<u8").tofile(path)


def replayed(trace: Path, seed: int, folder: Path, service_us: float) -> Tenant:
    """Return a tenant that replays a trace repeatedly.

    `folder` receives the trace for this seed.
    """
    pages = max(PAGES_MIN, int(pages_of(trace) * MEMORY_SHARE))
    path = folder / f"{name_of(trace)}.u64"
    write(of_seed(_models.trace_keys(str(trace)), seed), path)
    phases = [{"source": {"kind": "trace", "path": str(path)}}]
    return Tenant(f"/{name_of(trace)}", pages * PAGE_BYTES, phases, service_us=service_us)


def groups(found: Sequence[Path]) -> list[list[Path]]:
    """Return groups of four. Neighbours by name are apart, so that tenants of a node differ."""
    count = -(-len(found) // GROUP)
    return [list(found[first::count]) for first in range(count)]
