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
"""Pages of 10 MiB of records, and of everything else that takes memory of the cgroup."""
IOPS = 115
"""The virtual machine serves 150, but there an operation that misses reads 1.3 pages."""
ALPHAS = {"zipf09": 0.9, "zipf06": 0.6}
SERVICE_US = 1500.0
READ_US = 1000.0
SECONDS = 160.0
"""Only the last `STEADY_SECONDS` count: at some 60 accesses per second, curves take a minute."""
STEADY_SECONDS = 40.0


@dataclass(frozen=True)
class Played:
    """One setting: its SLOs in operations per second by cgroup, and its run."""

    slos: dict[str, float]
    run: Run

    def seconds(self, cgroup: str) -> list[float]:
        """Return operations per second of each steady second."""
        looks = [one for one in self.run.looks[cgroup] if one.time_s >= SECONDS - STEADY_SECONDS]
        return windows(looks)

    def told(self, cgroup: str) -> Iterator[SloTold]:
        """Yield what the controller reported of the SLO in each steady second."""
        for one in self.run.slos.get(cgroup, ()):
            if one.time_s >= SECONDS - STEADY_SECONDS:
                yield one


def node(seed: int) -> Setup:
    """Return one thread each over its own database, and a disk that all of them wait for."""
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
    """Run a setting of SLOs by tenant, all of one priority."""
    named = {f"/{name}": ops for name, ops in slos.items()}
    stated = [Objective(name, throughput_ops=ops, priority=1) for name, ops in named.items()]
    return Played(named, play(node(seed), Objectives((*stated, Objective("*")))))


def windows_met_pct(played: Sequence[Played]) -> float:
    """Return the percentage of all steady one-second windows that met their SLO."""
    met = [
        ops >= wanted
        for one in played
        for cgroup, wanted in one.slos.items()
        for ops in one.seconds(cgroup)
    ]
    return 100 * fmean(met)


@dataclass(frozen=True)
class Outcome:
    """One seed: the percentage of windows met, and the reports of the SLO that cannot be met.

    `attainable_ops` is the median of the attainable throughput reported, `named_pct` the percentage
    of looks that report the SLO as unattainable, and `beyond_ops` the measured throughput.
    """

    seed: int
    met_pct: float
    attainable_ops: float
    named_pct: float
    beyond_ops: float

    @property
    def error_pct(self) -> float:
        """Error of the reported attainable throughput, in percent of the measured one."""
        return 100 * abs(self.attainable_ops / self.beyond_ops - 1)


def outcome(seed: int) -> Outcome:
    """Play all three settings."""
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
    """Return `autopilot.simulated.qos_*`, with one value per seed.

    Goals apply to the worst seed.
    """
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
    """Measure `autopilot.simulated.qos_*`, with one value per seed."""
    found = []
    for one in side_by_side(outcome, range(1, seeds + 1)):
        say(
            f"qos, seed {one.seed}: {one.met_pct:.1f}% met; beyond: {one.attainable_ops:.4g} "
            f"told, {one.beyond_ops:.4g} measured, named {one.named_pct:.1f}%"
        )
        found.append(one)
    return rows(found)
