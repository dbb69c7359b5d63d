# SPDX-License-Identifier: Apache-2.0
"""SLOs of throughput: HOLPACA's Figure 7, in three settings.

The SLOs of `one` and `two` can be met, though the equal split meets none of them. `beyond` asks for
more than the tenant can reach with the memory that it may have. The controller should report this
SLO as unattainable, with the throughput that is attainable.
"""

from collections.abc import Sequence
from statistics import fmean, median

from experiments.autopilot.measured.record import Run
from experiments.autopilot.measured.series import share_met
from experiments.autopilot.measured.world import MIB, Side, Tenant, World, objectives
from experiments.shared.rows import Row

NAME = "qos"
TENANTS = {
    "zipf09": "--workload c --zipf 0.9",
    "zipf06": "--workload c --zipf 0.6",
    "uniform": "--workload uniform",
}
KEPT: dict[str, dict[str, float]] = {
    "one": {"zipf06": 120.0},
    "two": {"zipf09": 190.0, "zipf06": 95.0},
}
BEYOND = ("uniform", 20_000.0)
# With all memory, the whole database would be cached, and the processor would set what is
# attainable.
BEYOND_MEMORY_MAX = "8 MiB"
WINDOWS_MET_PCT = 98.0
ERROR_PCT = 10.0


def world() -> World:
    """Return the three settings; three databases of 10 MiB share 15 MiB."""

    def side(name: str, slos: dict[str, float], **more: object) -> Side:
        stated = {one: {"throughput_ops": ops, "priority": 1, **more} for one, ops in slos.items()}
        return Side(name, 100, 40.0, objectives(name, stated | {"*": {}}))

    return World(
        experiment=NAME,
        tenants=[Tenant(name, "ycsb", words) for name, words in TENANTS.items()],
        sides=(
            *(side(name, slos) for name, slos in KEPT.items()),
            side("beyond", dict([BEYOND]), memory_max=BEYOND_MEMORY_MAX),
        ),
        budget_bytes=15 * MIB,
        iops=150,
        records=10_000,
    )


def windows_met_pct(run: Run) -> float:
    """Return the percentage of one-second windows after warm-up that met an SLO that can be met."""
    met = [
        share_met([ops], wanted)
        for side, slos in KEPT.items()
        for tenant, wanted in slos.items()
        for ops in run.seconds(side, tenant)
    ]
    return 100 * fmean(met)


def _beyond(run: Run) -> list[tuple[str, float]]:
    """Return state and attainable throughput, as reported in each look of the steady seconds."""
    tenant, _ = BEYOND
    from_s, to_s = run.window("beyond")
    return [
        (slo["state"], slo["attainable_ops"])
        for look in run.looks("beyond", tenant)
        if from_s <= look["time_s"] <= to_s
        for slo in look["slos"]
        if slo["attainable_ops"] is not None
    ]


def attainable_error_pct(run: Run) -> float:
    """Return the error of the reported attainable throughput, in percent of the measured one."""
    told = median(ops for _, ops in _beyond(run))
    return 100 * abs(told / run.ops("beyond", BEYOND[0]) - 1)


def named_pct(run: Run) -> float:
    """Return the percentage of steady looks that report the SLO as unattainable."""
    return 100 * fmean(state == "unattainable" for state, _ in _beyond(run))


def rows(runs: Sequence[Run]) -> list[Row]:
    """Return `autopilot.qos.*`, with one value per run. Goals apply to the worst run."""
    told = "`beyond`, which asks for more than there is"
    return [
        *Row.worst_of(
            "autopilot.qos.windows_met_pct",
            [windows_met_pct(run) for run in runs],
            "%",
            better="higher",
            goal=WINDOWS_MET_PCT,
            reference="one-second windows after warm-up, of SLOs that can be met",
        ),
        *Row.worst_of(
            "autopilot.qos.attainable_error_pct",
            [attainable_error_pct(run) for run in runs],
            "%",
            goal=ERROR_PCT,
            reference=f"{told}; measured, operations per second",
            reference_value=median(run.ops("beyond", BEYOND[0]) for run in runs),
        ),
        *Row.worst_of(
            "autopilot.qos.infeasible_named_pct",
            [named_pct(run) for run in runs],
            "%",
            better="higher",
            goal=100.0,
            reference=told,
        ),
    ]
