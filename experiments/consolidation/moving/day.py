# SPDX-License-Identifier: Apache-2.0
"""A day of load: consolidated at night, spread in the morning; the rows `consolidation.day.*`.

Tenants replay their whole traces by day and a small part of them at night. A day is compressed: the
time of day, which dates the records of past needs, passes `Scale.times` as fast as the nodes'
clocks.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from experiments.autopilot.configs import toml_lines
from experiments.autopilot_simulated.tenants import (
    write,
)
from experiments.consolidation.moving.fleets import (
    ACCESSES,
    CONCURRENCY,
    SERVICE_US,
    fleet_of,
    programs,
    seconds,
    state_slos,
)
from experiments.consolidation.moving.processes import Tenant
from experiments.consolidation.moving.virtual import Clock, World, is_missed, judged, play
from experiments.shared.rows import Row

from cachepilot.api.shapes.rollout import Consolidate
from cachepilot.domain.moving import MoveState
from cachepilot.domain.slos import GOAL
from cachepilot.domain.units import DAY_S
from cachepilot.errors import ConflictError, InputError
from cachepilot.fleet.moving.folder import FolderProvider

HOUR_S = DAY_S / 24
MIDNIGHT_S = 20_000 * DAY_S
BUSY, QUIET = 6, 18
"""Hours at which load rises and falls. A run begins when it rises."""
CONSOLIDATE, SPREAD = 20, 3
"""From the first hour on, nodes are drained, once an hour. From the second on, tenants are spread.
"""
MORNING = 2
"""Length of the morning in hours, from the rise of load on."""
HEADROOM_HOURS, LOOKAHEAD_HOURS = 1, 4
PART = 0.1
"""Share of its trace that a tenant reads at night."""
SLO_SHARE = 0.8
"""Share of a tenant's throughput with memory for all its pages that is its SLO. Every third tenant
has none.
"""
AGAIN_S = 60
"""Seconds of a time span. All SLOs are met again when `GOAL` of the windows in such a span are."""


@dataclass(frozen=True)
class Scale:
    """`nodes` nodes of three tenants. A second of theirs is `times` seconds of the day."""

    nodes: int = 4
    times: float = 60.0

    def seconds(self, hours: float) -> int:
        """Convert hours of the day to seconds of the nodes."""
        return round(hours * HOUR_S / self.times)


WHOLE = Scale()


@dataclass(frozen=True)
class DayTenant(Tenant):
    """A tenant that reads `night` from `QUIET` to `BUSY`; `times` is as in `Scale`."""

    night: Mapping[str, Any] = field(default_factory=dict)
    times: float = 1.0

    def at(self, hours: float) -> str:
        """Return its definition if it starts this many hours after the run began."""
        phases, since = list[str](), 0.0
        for number, length in enumerate(3 * (QUIET - BUSY, 24 - QUIET + BUSY)):
            left, since = since + length - max(hours, since), since + length
            if left <= 0:
                continue
            source = ", ".join(toml_lines(self.night if number % 2 else self.source))
            seconds = left * HOUR_S / self.times
            phases.append(f"{{ seconds = {seconds!r}, source = {{ {source} }} }}")
        # The last phase never ends.
        phases[-1] = phases[-1][phases[-1].index("source") :].join(("{ ", ""))
        head = [one for one in super().definition().splitlines() if not one.startswith("phase")]
        return "\n".join([*head, f"phase = [{', '.join(phases)}]"]) + "\n"

    def definition(self) -> str:
        """Return its definition at the beginning of the run."""
        return self.at(0.0)


class Clockwork(FolderProvider):
    """Moves tenants. On its new node, a tenant continues with the phase for the time of day."""

    def __init__(self, folder: Path, tenants: Mapping[str, DayTenant], clock: Clock) -> None:
        super().__init__(folder)
        self._workloads, self._tenants, self._clock = folder, tenants, clock

    def move(self, cgroup: str, from_node: str, to_node: str) -> None:
        """Move a tenant.

        Agents read no file during a step of the rollout, since all wait for the second to end.
        """
        super().move(cgroup, from_node, to_node)
        hours = (self._clock() - self._clock.begin_s) / HOUR_S
        file = self._workloads / to_node / f"{cgroup.strip('/').replace('/', '-')}.toml"
        file.write_text(self._tenants[cgroup].at(hours), "utf-8")


@dataclass
class Found:
    """Results of one seed. Times are those of the nodes."""

    saved_pct: float = 0.0
    met_pct: float = 0.0
    morning_pct: float = 0.0
    all_on_pct: float = 0.0
    missed: int = 0
    missed_all_on: int = 0
    made: int = 0
    undone: int = 0
    again_s: float = 0.0


def _tenants(seed: int, folder: Path, scale: Scale) -> list[DayTenant]:
    found = []
    for one in programs(seed, scale.nodes):
        paths = [folder / f"{one.name}.u64", folder / f"{one.name}.night.u64"]
        write(one.keys, paths[0])
        write(one.keys[: max(1, int(one.keys.size * PART))], paths[1])
        source, night = ({"kind": "trace", "path": str(path)} for path in paths)
        found.append(
            DayTenant(
                f"/{one.name}", source, one.limit_bytes, SERVICE_US, CONCURRENCY, ACCESSES,
                night=night, times=scale.times,
            )
        )  # fmt: skip
    return found


class _Day:
    """One run, hour by hour; `found` has its results."""

    def __init__(self, scale: Scale, cgroups: Sequence[str]) -> None:
        self._scale, self._cgroups = scale, cgroups
        self._ids: dict[int, tuple[int, int]] = {}
        self._empty = 0
        self.found = Found()

    def script(self, world: World) -> Iterator[None]:
        """Play from the rise of load through the night to the fall of load on the next day."""
        scale = self._scale
        begun_s = world.now_s
        yield from seconds(scale.seconds(3))
        from_s = world.now_s - scale.seconds(1)
        does = {one: world.mean_ops(one, from_s, world.now_s) for one in self._cgroups}
        state_slos(world, does, SLO_SHARE)
        yield from seconds(scale.seconds(QUIET - BUSY - 3))
        fall_s = world.now_s
        self.found.all_on_pct, self.found.missed_all_on = self._met(
            world, fall_s - scale.seconds(QUIET - BUSY - 4), fall_s
        )
        yield from self._hours(world, CONSOLIDATE - QUIET, None)
        yield from self._hours(world, 24 + SPREAD - CONSOLIDATE, "drain")
        if world.mover.rollout is not None and not world.mover.rollout.is_over:
            world.mover.stop()
        yield from self._hours(world, 24 + QUIET - SPREAD - 24, "spread")
        day_s, rise_s = scale.seconds(24), begun_s + scale.seconds(24)
        self.found.met_pct, self.found.missed = self._met(world, world.now_s - day_s, world.now_s)
        self.found.morning_pct, _ = self._met(world, rise_s, rise_s + scale.seconds(MORNING))
        self.found.again_s = self._again_s(world, rise_s)
        self.found.saved_pct = 100 * self._empty / (day_s * scale.nodes)
        self.found.made = sum(made for made, _ in self._ids.values())
        self.found.undone = sum(undone for _, undone in self._ids.values())

    def _hours(self, world: World, hours: int, what: str | None) -> Iterator[None]:
        """Let hours pass.

        Nodes are drained once an hour, or tenants are spread every quarter of one.
        """
        every = self._scale.seconds(1 if what == "drain" else 0.25)
        for second in range(self._scale.seconds(hours)):
            # A rollout that ended in this second may be followed by another one at once.
            self._count(world)
            rollout = world.mover.rollout
            if what is not None and second % every == 0 and (rollout is None or rollout.is_over):
                _begin(world, what == "spread")
            yield

    def _count(self, world: World) -> None:
        """Count nodes that have no tenant and expect none, and the moves by their outcome."""
        used = {looks[-1].node for looks in world.looks.values()}
        rollout = world.mover.rollout
        if rollout is not None:
            if not rollout.is_over and rollout.present is not None:
                used.add(rollout.present.move.to_node)
            states = [one.state for one in rollout.moves]
            undone = (MoveState.RETURNED, MoveState.FAILED)
            counts = states.count(MoveState.KEPT), sum(one in undone for one in states)
            self._ids[rollout.id] = counts
        self._empty += self._scale.nodes - len(used)

    def _met(self, world: World, from_s: float, to_s: float) -> tuple[float, int]:
        """Return the percentage of windows that met their SLO, and how many tenants missed it."""
        stated = {one.pattern for one in world.service.objectives().tenants if one.has_slo}
        missed, windows, met = 0, 0, 0
        for cgroup in stated.intersection(self._cgroups):
            told = judged(world.between(cgroup, from_s, to_s))
            missed += is_missed(told)
            windows, met = windows + len(told), met + sum(told)
        return 100 * met / max(1, windows), missed

    def _again_s(self, world: World, rise_s: float) -> float:
        """Return the seconds from the rise of load until all SLOs are met, or the run ends."""
        last_s = world.now_s - AGAIN_S
        for since_s in np.arange(rise_s, last_s):
            if self._met(world, since_s, since_s + AGAIN_S)[0] >= 100 * GOAL:
                return float(since_s - rise_s)
        return float(last_s - rise_s)


def _begin(world: World, spreads: bool) -> None:
    """Begin what is planned, as a timer does. A refused plan is tried again the next time."""
    with suppress(ConflictError, InputError):
        world.service.moving.begin(Consolidate(spreads=spreads))


def lived(seed: int, scale: Scale = WHOLE) -> Found:
    """Play one run."""
    with tempfile.TemporaryDirectory(prefix="cachepilot-day-") as name:
        folder = Path(name)
        tenants = _tenants(seed, folder, scale)
        options = {"headroom_hours": HEADROOM_HOURS, "lookahead_hours": LOOKAHEAD_HOURS}
        made = fleet_of(seed, folder, tenants, scale.nodes, options)
        clock = Clock(MIDNIGHT_S + BUSY * HOUR_S, scale.times)
        provider = Clockwork(made.workloads, {one.cgroup: one for one in tenants}, clock)
        day = _Day(scale, sorted(one.cgroup for one in tenants))
        play(made, day.script, provider, clock)
        return day.found


def measure(seeds: int, scale: Scale = WHOLE) -> list[Row]:
    """Return the rows of this many seeds."""
    return rows_of([lived(seed, scale) for seed in range(1, seeds + 1)])


def rows_of(found: Sequence[Found]) -> list[Row]:
    """Return the rows of the results of each seed."""
    prefix, all_on = "consolidation.day.", "all nodes always on, the day before, same runs"
    met_before = float(np.median([one.all_on_pct for one in found]))
    rows = [
        Row.of_runs(f"{prefix}node_hours_saved_pct", [one.saved_pct for one in found],
                    "% of node hours", better="higher", reference=all_on, reference_value=0.0),
    ]  # fmt: skip
    for name, met in (
        ("windows_met_pct", [one.met_pct for one in found]),
        ("morning.windows_met_pct", [one.morning_pct for one in found]),
    ):
        rows += Row.worst_of(
            f"{prefix}{name}", met, "%", 100 * GOAL, better="higher", reference=all_on,
            reference_value=met_before,
        )  # fmt: skip
    rows += [
        Row(f"{prefix}tenants_missed", sum(one.missed for one in found), "tenants", goal=0.0,
            runs=len(found), reference=all_on,
            reference_value=float(sum(one.missed_all_on for one in found))),
        Row.of_runs(f"{prefix}moves_made", [one.made for one in found], "moves"),
        Row.of_runs(f"{prefix}moves_undone", [one.undone for one in found], "moves"),
        Row.of_runs(f"{prefix}met_again_s", [one.again_s for one in found], "s of the nodes"),
    ]  # fmt: skip
    return rows
