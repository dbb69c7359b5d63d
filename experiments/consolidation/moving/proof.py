# SPDX-License-Identifier: Apache-2.0
"""Nodes that are drained, from the plan to the outcome: the rows `consolidation.fleet.*`."""

import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from experiments.autopilot_simulated.tenants import (
    PAGE_BYTES,
    write,
)
from experiments.consolidation.moving.fleets import (
    ACCESSES,
    CONCURRENCY,
    MARGIN_PAGES,
    READ_US,
    SERVICE_US,
    drain_of,
    fleet_of,
    programs,
    seconds,
    state_slos,
)
from experiments.consolidation.moving.measured import KEEP
from experiments.consolidation.moving.packed import hosts
from experiments.consolidation.moving.processes import Fleet, Tenant
from experiments.consolidation.moving.virtual import World, is_missed, judged, play
from experiments.shared.rows import Row

from cachepilot import simulator
from cachepilot.domain.consolidation import Drain, Move
from cachepilot.domain.moving import MoveState, Rollout, RolloutState
from cachepilot.domain.slos import GOAL
from cachepilot.fleet.moving import rehearsing

MOVED_S_MAX = 1200
MEASURED_S = 20
SLO_SHARE = 0.6
"""Share of a tenant's throughput with memory for all its pages that is its SLO. Every third tenant
has none.
"""


@dataclass(frozen=True)
class Scale:
    """Number of nodes, of three tenants each, and the seconds of each stage.

    `learnt_s` passes until SLOs are stated, `settled_s` until the plan is made, and `after_s` after
    the rollout.
    """

    nodes: int = 6
    learnt_s: int = 45
    settled_s: int = 15
    after_s: int = 40


WHOLE = Scale()


@dataclass
class Found:
    """Results of one seed: counts, relative errors of throughputs, and times of the nodes."""

    nodes: int
    saved: int = 0
    by_peak: int = 0
    optimum: int = 0
    windows: int = 0
    met: int = 0
    undone: int = 0
    refuted: int = 0
    broken: int = 0
    errors: list[float] = field(default_factory=list)
    move_s: list[float] = field(default_factory=list)
    rollout_s: float = 0.0
    turned_back: bool = False
    home_s: float = 0.0


def tenants_of(seed: int, folder: Path, nodes: int) -> list[Tenant]:
    """Return tenants that replay recorded programs. Their traces are written to `folder`."""
    found = []
    for one in programs(seed, nodes):
        path = folder / f"{one.name}.u64"
        write(one.keys, path)
        source = {"kind": "trace", "path": str(path)}
        found.append(
            Tenant(f"/{one.name}", source, one.limit_bytes, SERVICE_US, CONCURRENCY, ACCESSES)
        )
    return found


def fleet(seed: int, folder: Path, count: int = WHOLE.nodes) -> Fleet:
    """Return nodes of one size, on which every tenant has memory for all its pages."""
    return fleet_of(seed, folder, tenants_of(seed, folder, count), count)


def _until_over(world: World) -> Iterator[None]:
    """Wait until the rollout ends."""
    for _ in range(MOVED_S_MAX):
        rollout = world.mover.rollout
        if rollout is None or rollout.is_over:
            return
        yield


def drained(
    world: World, cgroups: Iterable[str], scale: Scale
) -> Generator[None, None, dict[str, float]]:
    """State SLOs and drain the nodes that can be drained.

    Return each tenant's throughput before that.
    """
    yield from seconds(scale.learnt_s)
    now_s = world.now_s
    does = {one: world.mean_ops(one, now_s - MEASURED_S, now_s) for one in sorted(cgroups)}
    state_slos(world, does, SLO_SHARE)
    yield from seconds(scale.settled_s)
    drains = [drain_of(one) for one in world.service.consolidation().drains]
    if drains:
        world.mover.begin(drains)
        yield from _until_over(world)
    return does


def consolidated(seed: int, scale: Scale = WHOLE) -> Found:
    """Drain the nodes that can be drained, judge the outcome, then make one move miss its SLO."""
    found = Found(scale.nodes)
    with tempfile.TemporaryDirectory(prefix="cachepilot-fleet-") as name:
        folder = Path(name)
        made = fleet(seed, folder, scale.nodes)
        tenants = {one.cgroup: one for node in made.nodes for one in node.tenants}
        budget = made.nodes[0].budget_bytes

        def script(world: World) -> Iterator[None]:
            does = yield from drained(world, tenants, scale)
            yield from seconds(scale.after_s)
            _judge(found, world, does, tenants, budget, scale.after_s)
            yield from _missed(found, world)

        play(made, script)
    return found


def _judge(
    found: Found,
    world: World,
    does: dict[str, float],
    tenants: dict[str, Tenant],
    budget: int,
    after_s: int,
) -> None:
    rollout, now_s = world.mover.rollout, world.now_s
    slos = {one.pattern: one.throughput_ops for one in world.service.objectives().tenants}
    needs = []
    for cgroup, tenant in tenants.items():
        after = world.mean_ops(cgroup, now_s - after_s, now_s)
        slo = slos.get(cgroup)
        needs.append(_needed(tenant, slo or KEEP * does[cgroup]))
        if slo is None:
            found.broken += after < KEEP * does[cgroup]
            continue
        met = judged(world.between(cgroup, now_s - after_s, now_s))
        found.windows, found.met = found.windows + len(met), found.met + sum(met)
        found.broken += is_missed(met)
    peaks = [one.limit_bytes for one in tenants.values()]
    found.by_peak = found.nodes - hosts(peaks, budget, found.nodes)
    found.optimum = found.nodes - hosts(needs, budget, found.nodes)
    if rollout is None:
        return
    found.saved = len(rollout.emptied)
    found.rollout_s = (rollout.ended_s or now_s) - rollout.begun_s
    _judge_moves(found, rollout)


def _judge_moves(found: Found, rollout: Rollout) -> None:
    for one in rollout.moves:
        found.undone += one.state is MoveState.RETURNED
        if one.rehearsal is not None:
            found.refuted += bool(rehearsing.missed(one.rehearsal))
        if one.state is MoveState.KEPT and one.begun_s is not None and one.ended_s is not None:
            found.move_s.append(one.ended_s - one.begun_s)
        # Moves that were undone count too, because their predictions were the worst.
        elif one.state is not MoveState.RETURNED:
            continue
        own = next((check for check in one.checks if check.cgroup == one.move.cgroup), None)
        if own is not None and own.after_ops is not None and one.move.predicted_ops > 0:
            found.errors.append(abs(own.after_ops / one.move.predicted_ops - 1))


def _needed(tenant: Tenant, ops: float) -> int:
    """Return the least bytes that give a throughput, by Belady's optimum over the replayed trace.

    The model is a device without queueing: throughput = concurrency / (service + accesses x miss x
    read).
    """
    path = str(tenant.source["path"])
    pages = tenant.limit_bytes // PAGE_BYTES - MARGIN_PAGES
    sizes = np.unique(np.geomspace(16, pages, 32).astype(np.int64))
    curve = simulator.mrc_exact(path, sizes.astype(np.uint64), ["opt"])[0]
    allowed = (CONCURRENCY * 1e6 / ops - SERVICE_US) / (ACCESSES * READ_US)
    fits = np.flatnonzero(np.asarray(curve.miss_ratio) <= allowed)
    return int(sizes[fits[0]] if fits.size else pages) * PAGE_BYTES


def _missed(found: Found, world: World) -> Iterator[None]:
    """Move a tenant, and raise its SLO during the move beyond anything it can reach."""
    loops = world.controller.fleet.loops()
    empty = [n for n, loop in loops.items() if loop.report and not loop.report.collected.seen]
    stated = world.service.objectives()
    chosen = next(one for one in stated.tenants if one.throughput_ops is not None)
    look = world.looks[chosen.pattern][-1]
    target = empty[0] if empty else next(name for name in loops if name != look.node)
    ops = world.mean_ops(chosen.pattern, world.now_s - MEASURED_S, world.now_s)
    move = Move(chosen.pattern, look.node, target, look.limit_bytes, "default", ops, 1000, 5.0)
    world.mover.begin([Drain(look.node, (move,), 0)])
    while world.looks[chosen.pattern][-1].node != target:
        rollout = world.mover.rollout
        if rollout is None or rollout.is_over:
            return
        yield
    raised = replace(chosen, throughput_ops=10 * (chosen.throughput_ops or 1.0))
    others = tuple(one for one in stated.tenants if one is not chosen)
    world.service.set_objectives(replace(stated, tenants=(raised, *others)))
    begun_s = world.now_s
    yield from _until_over(world)
    world.service.set_objectives(stated)
    yield from seconds(3)
    rollout = world.mover.rollout
    found.turned_back = (
        rollout is not None
        and rollout.state is RolloutState.TURNED_BACK
        and world.looks[chosen.pattern][-1].node == look.node
    )
    found.home_s = world.now_s - 3 - begun_s


def measure(seeds: int, scale: Scale = WHOLE) -> list[Row]:
    """Return the rows of this many seeds."""
    return rows_of([consolidated(seed, scale) for seed in range(1, seeds + 1)])


def rows_of(found: Sequence[Found]) -> list[Row]:
    """Return the rows of the results of each seed."""
    errors = [error for one in found for error in one.errors]
    prefix, unit = "consolidation.fleet.", f"hosts of {found[0].nodes}"
    rows = Row.worst_of(
        f"{prefix}hosts_saved", [one.saved for one in found], unit, better="higher",
        reference="equal limits, same runs", reference_value=0.0,
    )  # fmt: skip
    rows += [
        Row.of_runs(f"{prefix}hosts_saved.by_peak", [one.by_peak for one in found], unit,
                    better="higher"),
        Row.of_runs(f"{prefix}hosts_saved.hindsight", [one.optimum for one in found],
                    unit, better="higher"),
    ]  # fmt: skip
    kept = [100 * one.met / max(1, one.windows) for one in found]
    rows += Row.worst_of(f"{prefix}windows_met_pct", kept, "%", 100 * GOAL, better="higher")
    rows += [
        Row(f"{prefix}false_predictions", sum(one.undone + one.broken for one in found), "tenants",
            goal=0.0, runs=len(found)),
        Row(f"{prefix}rehearsals_missed", sum(one.refuted for one in found), "drains",
            runs=len(found)),
        Row(f"{prefix}throughput_error.median", float(np.median(errors or [0.0])), "ratio",
            goal=0.10, runs=len(found)),
        Row(f"{prefix}throughput_error.worst", max(errors, default=0.0), "ratio",
            goal=0.25, runs=len(found)),
        Row.of_runs(f"{prefix}move_s", [float(np.median(one.move_s or [0.0])) for one in found],
                    "s of the nodes"),
        Row.of_runs(f"{prefix}rollout_s", [one.rollout_s for one in found], "s of the nodes"),
        Row(f"{prefix}turned_back", sum(one.turned_back for one in found), "runs",
            better="higher", goal=float(len(found)), runs=len(found)),
        Row.of_runs(f"{prefix}home_again_s", [one.home_s for one in found], "s of the nodes"),
    ]  # fmt: skip
    return rows
