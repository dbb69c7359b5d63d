# SPDX-License-Identifier: Apache-2.0
"""Compares tenants whose page cache is read before they move with tenants that arrive cold.

The rows are `consolidation.arrival.*`. Both move by the same plan of the same fleet.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from experiments.consolidation.moving.fleets import fleet_of, seconds
from experiments.consolidation.moving.proof import MEASURED_S, WHOLE, Scale, drained, tenants_of
from experiments.consolidation.moving.virtual import World, play
from experiments.shared.rows import Row

from cachepilot.domain.moving import Moved

PREPARING_S = 600.0
"""Longer than it takes here to read a page cache."""
ARRIVED_S = 10.0
"""How long a tenant is measured after its arrival."""
WAYS = {"cold": 0.0, "prepared": PREPARING_S}


@dataclass
class Arrivals:
    """Tenants that moved.

    `share` is the throughput after the arrival divided by that before, `read_s` the seconds of
    reading.
    """

    share: list[float] = field(default_factory=list)
    windows: int = 0
    met: int = 0
    read_s: list[float] = field(default_factory=list)


def arrivals(seed: int, scale: Scale, preparing_s: float) -> Arrivals:
    """Return the results of the moves of one fleet."""
    found = Arrivals()
    with tempfile.TemporaryDirectory(prefix="cachepilot-arrivals-") as name:
        folder, nodes = Path(name), scale.nodes
        tenants = tenants_of(seed, folder, nodes)
        made = fleet_of(seed, folder, tenants, nodes, {"preparing_seconds": preparing_s})

        def script(world: World) -> Iterator[None]:
            yield from drained(world, (one.cgroup for one in tenants), scale)
            yield from seconds(int(ARRIVED_S))
            rollout = world.mover.rollout
            for one in () if rollout is None else rollout.moves:
                _take(found, world, one)

        play(made, script)
    return found


def _take(found: Arrivals, world: World, moved: Moved) -> None:
    if moved.begun_s is None or moved.arrived_s is None:
        return
    cgroup = moved.move.cgroup
    before = world.mean_ops(cgroup, moved.begun_s - MEASURED_S, moved.begun_s)
    # `between` excludes the second of the arrival, which still belongs to the move.
    there_s = moved.arrived_s
    looks = world.between(cgroup, there_s, there_s + ARRIVED_S)
    looks = [one for one in looks if one.node == moved.move.to_node]
    ops = [one.ops for one in looks if one.ops is not None]
    if before and ops:
        found.share.append(sum(ops) / len(ops) / before)
    met = [one.met for one in looks if one.met is not None]
    found.windows, found.met = found.windows + len(met), found.met + sum(met)
    if moved.prepared_s is not None and moved.read_s is not None:
        found.read_s.append(moved.read_s - moved.prepared_s)


def measure(seeds: int, scale: Scale = WHOLE) -> list[Row]:
    """Return the rows of this many seeds."""
    found = {
        way: [arrivals(seed, scale, preparing_s) for seed in range(1, seeds + 1)]
        for way, preparing_s in WAYS.items()
    }
    return rows_of(found)


def rows_of(found: Mapping[str, Sequence[Arrivals]]) -> list[Row]:
    """Return the rows of the results of each seed, cold and prepared."""
    prefix, rows = "consolidation.arrival.", []
    for way, runs in found.items():
        shares = [share for one in runs for share in one.share]
        windows, met = sum(one.windows for one in runs), sum(one.met for one in runs)
        rows += [
            Row(f"{prefix}throughput.median.{way}", float(np.median(shares or [0.0])),
                "of before", better="higher", runs=len(runs)),
            Row(f"{prefix}throughput.worst.{way}", min(shares, default=0.0),
                "of before", better="higher", runs=len(runs)),
            Row(f"{prefix}windows_met_pct.{way}", 100 * met / max(1, windows), "%",
                better="higher", runs=len(runs)),
        ]  # fmt: skip
    read_s = [one for run in found["prepared"] for one in run.read_s]
    rows.append(Row(f"{prefix}read_s", float(np.median(read_s or [0.0])), "s of the nodes",
                    runs=len(found["prepared"])))  # fmt: skip
    return rows
