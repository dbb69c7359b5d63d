# SPDX-License-Identifier: Apache-2.0
"""SLOs of throughput on a slow device: HOLPACA's Figure 7, in three settings.

The SLOs and sizes are those that are measured in the virtual machine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from experiments.autopilot.measured import qos as measured
from experiments.autopilot_simulated.rig import Run, Setup, SloTold, Tenant, play, windows
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row
from experiments.shared.side_by_side import side_by_side

from cachepilot.domain.objectives.objective import Objective, Objectives

DATABASE_PAGES = 3300
"""Of 10 MiB of records, with what else a cgroup's memory is spent on."""
IOPS = 115
"""150 there, where an operation that misses reads 1.3 pages."""
ALPHAS = {"zipf09": 0.9, "zipf06": 0.6}
SERVICE_US = 1500.0
READ_US = 1000.0
SECONDS = 160.0
"""Of which the last `STEADY_SECONDS` count: curves take a minute at some 60 accesses per second."""
STEADY_SECONDS = 40.0


@dataclass(frozen=True)
class Played:
    """One setting: its SLOs, operations per second by cgroup, and how it went."""

    slos: dict[str, float]
    run: Run

    def seconds(self, cgroup: str) -> list[float]:
        """Operations per second of each steady second."""
        looks = [one for one in self.run.looks[cgroup] if one.time_s >= SECONDS - STEADY_SECONDS]
        return windows(looks)

    def told(self, cgroup: str) -> Iterator[SloTold]:
        """What the controller told of the SLO in each steady second."""
        for one in self.run.slos.get(cgroup, ()):
            if one.time_s >= SECONDS - STEADY_SECONDS:
                yield one


def node(seed: int) -> Setup:
    """One thread each over a database of its own, and a disk that all of them wait for."""
    world = measured.world()
    tenants = []
    for name in measured.TENANTS:
        source: dict[str, object] = {"kind": "uniform", "pages": DATABASE_PAGES}
        if name in ALPHAS:
            source = {"kind": "zipf", "pages": DATABASE_PAGES, "alpha": ALPHAS[name]}
        phases = [{"source": source}]
        tenants.append(
            Tenant(f"/{name}", world.limit_bytes, phases, concurrency=1, service_us=SERVICE_US)
        )
    return Setup(tenants, world.budget_bytes, SECONDS, read_us=READ_US, iops=IOPS, seed=seed)


def keep(slos: dict[str, float], seed: int) -> Played:
    """Runs a setting of SLOs by tenant, all of one priority."""
    named = {f"/{name}": ops for name, ops in slos.items()}
    stated = [Objective(name, throughput_ops=ops, priority=1) for name, ops in named.items()]
    return Played(named, play(node(seed), Objectives((*stated, Objective("*")))))


def windows_met_pct(played: Sequence[Played]) -> float:
    """Of all steady one-second windows of all SLOs."""
    met = [
        ops >= wanted
        for one in played
        for cgroup, wanted in one.slos.items()
        for ops in one.seconds(cgroup)
    ]
    return 100 * fmean(met)


@dataclass(frozen=True)
class Outcome:
    """One seed: percent of windows met, and of the SLO beyond what there is what was told.

    `attainable_ops` is the median of what was told, `named_pct` of the looks those that name it
    infeasible, `beyond_ops` what was measured.
    """

    seed: int
    met_pct: float
    attainable_ops: float
    named_pct: float
    beyond_ops: float

    @property
    def error_pct(self) -> float:
        """By how much what was told to be attainable is off."""
        return 100 * abs(self.attainable_ops / self.beyond_ops - 1)


def outcome(seed: int) -> Outcome:
    """Plays all three settings."""
    played = [keep(slos, seed) for slos in measured.KEPT.values()]
    tenant, wanted = measured.BEYOND
    beyond = keep({tenant: wanted}, seed)
    told = list(beyond.told(f"/{tenant}"))
    return Outcome(
        seed,
        windows_met_pct(played),
        median(one.attainable_ops for one in told if one.attainable_ops is not None),
        100 * fmean(one.state == "unattainable" for one in told),
        fmean(beyond.seconds(f"/{tenant}")),
    )


def rows(found: Sequence[Outcome]) -> list[Row]:
    """`autopilot.simulated.qos_*`, a value per seed; the goals stand on the worst."""
    about = "simulated node, a slow device"
    return [
        *Row.worst_of(
            "autopilot.simulated.qos_windows_met_pct",
            [one.met_pct for one in found],
            "%",
            better="higher",
            goal=measured.WINDOWS_MET_PCT,
            reference=f"one-second windows of SLOs that can be met; {about}",
        ),
        *Row.worst_of(
            "autopilot.simulated.qos_attainable_error_pct",
            [one.error_pct for one in found],
            "%",
            goal=measured.ERROR_PCT,
            reference="measured, operations per second",
            reference_value=median(one.beyond_ops for one in found),
        ),
        *Row.worst_of(
            "autopilot.simulated.qos_infeasible_named_pct",
            [one.named_pct for one in found],
            "%",
            better="higher",
            goal=100.0,
            reference=about,
        ),
    ]


def measure(seeds: int) -> Sequence[Row]:
    """`autopilot.simulated.qos_*`, a value per seed."""
    found = []
    for one in side_by_side(outcome, range(1, seeds + 1)):
        say(
            f"qos, seed {one.seed}: {one.met_pct:.1f}% met; beyond: {one.attainable_ops:.4g} "
            f"told, {one.beyond_ops:.4g} measured, named {one.named_pct:.1f}%"
        )
        found.append(one)
    return rows(found)
