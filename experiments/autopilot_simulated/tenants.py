# SPDX-License-Identifier: Apache-2.0
"""Tenants that replay traces, in groups that share a node."""

import json
from collections.abc import Sequence
from pathlib import Path

from experiments.autopilot_simulated.rig import Setup, Tenant
from experiments.shared.rows import ROOT

from cachepilot import _models

RECORDED = ROOT / "experiments" / "recorded_traces"
PAGE_BYTES = 4096
MEMORY_SHARE = 0.15
"""Of a trace's distinct pages: what its tenant may hold at first."""
PAGES_MIN = 512
GROUP = 4


def further_traces() -> Path | None:
    """A folder of traces beside the checkout, where there is one."""
    found = ROOT.parent / "shared" / "traces"
    return found if found.is_dir() else None


def traces(folder: Path | None) -> list[Path]:
    """The traces that the project recorded, and those in `folder`, by name."""
    found = sorted(RECORDED.glob("*.cptrace.zst"))
    if folder is not None:
        found += sorted(folder.glob("*.u64.zst"))
    return found


def name_of(trace: Path) -> str:
    """What a trace is called."""
    return trace.name.partition(".")[0]


def pages_of(trace: Path) -> int:
    """Distinct pages of a trace."""
    footprint: int = json.loads(_models.trace_info_json(str(trace)))["distinct_pages"]
    return footprint


def node(group: Sequence[Path], seconds: float, seed: int = 1) -> Setup:
    """A node whose tenants replay one trace each, over and over."""
    tenants = []
    for trace in group:
        pages = max(PAGES_MIN, int(pages_of(trace) * MEMORY_SHARE))
        source = {"kind": "trace", "path": str(trace)}
        tenants.append(Tenant(f"/{name_of(trace)}", pages * PAGE_BYTES, [{"source": source}]))
    budget = sum(tenant.limit_bytes for tenant in tenants)
    return Setup(tenants, budget, seconds, seed=seed)


def groups(found: Sequence[Path]) -> list[list[Path]]:
    """Groups of four; neighbours by name are apart, so that tenants of a node differ."""
    count = -(-len(found) // GROUP)
    return [list(found[first::count]) for first in range(count)]
