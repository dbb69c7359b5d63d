# SPDX-License-Identifier: Apache-2.0
"""Throughput that is promised, on a slow device: HOLPACA's Figure 7, in three settings.

The promises and sizes are those that are measured in the virtual machine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from experiments.autopilot.measured import qos as measured
from experiments.autopilot_simulated.rig import Promise, Run, Setup, Tenant, play
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row

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
WINDOW_SECONDS_MIN = 0.5


@dataclass(frozen=True)
class Played:
    """One setting: what is promised, operations per second by cgroup, and how it went."""

    promised: dict[str, float]
    run: Run

    def seconds(self, cgroup: str) -> list[float]:
        """Operations per second of each steady second."""
        looks = [one for one in self.run.looks[cgroup] if one.time_s >= SECONDS - STEADY_SECONDS]
        return [
            (later.ops_total - one.ops_total) / (later.time_s - one.time_s)
            for one, later in pairwise(looks)
            if later.time_s - one.time_s >= WINDOW_SECONDS_MIN
        ]

    def told(self, cgroup: str) -> Iterator[Promise]:
        """What the controller told of the promise in each steady second."""
        for one in self.run.promises.get(cgroup, ()):
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


def keep(promised: dict[str, float], seed: int) -> Played:
    """Runs a setting of promises by tenant, all of one priority."""
    named = {f"/{name}": ops for name, ops in promised.items()}
    stated = [Objective(name, throughput_ops=ops, priority=1) for name, ops in named.items()]
    return Played(named, play(node(seed), Objectives((*stated, Objective("*")))))


def windows_met_pct(played: Sequence[Played]) -> float:
    """Of all steady one-second windows of all promises."""
    met = [
        ops >= promised
        for one in played
        for cgroup, promised in one.promised.items()
        for ops in one.seconds(cgroup)
    ]
    return 100 * fmean(met)


def _say(name: str, seed: int, one: Played) -> None:
    for cgroup, promised in one.promised.items():
        ops = one.seconds(cgroup)
        met = 100 * fmean(value >= promised for value in ops)
        say(f"qos, {name}, seed {seed}: {cgroup} {promised:g} asked, {fmean(ops):.4g}, {met:.1f}%")


def measure(runs: int) -> Sequence[Row]:
    """`autopilot.simulated.qos_*`, a value per seed."""
    met, errors, named, real = [], [], [], []
    for seed in range(1, runs + 1):
        played = [keep(promised, seed) for promised in measured.KEPT.values()]
        for name, one in zip(measured.KEPT, played, strict=True):
            _say(name, seed, one)
        met.append(windows_met_pct(played))
        tenant, promised = measured.BEYOND
        beyond = keep({tenant: promised}, seed)
        _say("beyond", seed, beyond)
        told = list(beyond.told(f"/{tenant}"))
        real.append(fmean(beyond.seconds(f"/{tenant}")))
        most = median(one.attainable_ops for one in told if one.attainable_ops is not None)
        errors.append(100 * abs(most / real[-1] - 1))
        named.append(100 * fmean(one.state == "unattainable" for one in told))
        say(f"qos, beyond, seed {seed}: {most:.4g} attainable told, named {named[-1]:.1f}%")
    about = "simulated node, a slow device"
    return [
        Row.of_runs(
            "autopilot.simulated.qos_windows_met_pct",
            met,
            "%",
            better="higher",
            goal=measured.WINDOWS_MET_PCT,
            reference=f"one-second windows of promises that can be kept; {about}",
        ),
        Row.of_runs(
            "autopilot.simulated.qos_attainable_error_pct",
            errors,
            "%",
            goal=measured.ERROR_PCT,
            reference="measured, operations per second",
            reference_value=median(real),
        ),
        Row.of_runs(
            "autopilot.simulated.qos_infeasible_named_pct",
            named,
            "%",
            better="higher",
            goal=100.0,
            reference=about,
        ),
    ]
