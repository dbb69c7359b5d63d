# SPDX-License-Identifier: Apache-2.0
"""One node: how much memory can be taken from it, and what its tenants lose by that.

Every tenant has memory for its peak. Every other tenant has an SLO, and the rest keep a share of
their throughput. The throughput with all memory is measured first. The SLO is that share of the
first percentile of the tenant's one-second throughputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, quantiles
from tempfile import TemporaryDirectory

from experiments.autopilot_simulated.rig import Run, Setup, play, windows
from experiments.consolidation.nodes import nodes, setup
from experiments.consolidation.senpai import Senpai
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row
from experiments.shared.side_by_side import side_by_side

from cachepilot.domain.objectives.objective import Goal, Mode, Objective, Objectives
from cachepilot.sense.counterfactuals import DEFAULT

SHARES = {"1pct": 0.99, "5pct": 0.95}
"""Shares of the throughput with all memory that are to be kept, by their names in the rows."""
STEADY_FROM = 0.6
SENPAI_TIMES = 1.5
"""Runs of Senpai's law are this many times as long, because it takes little memory at once."""
WINDOWS_MET_PCT = 99.0
ABOUT = "12 traces on three nodes, each tenant with memory for its peak"
PUBLISHED = "other work: TMO (ASPLOS '22) 20 to 32% of hosts, PageFlex (ATC '25) 36% of a store"


@dataclass(frozen=True)
class Job:
    """One run of one node. In the mode `reference` nothing is changed."""

    seed: int
    node: int
    mode: str
    seconds: float
    traces: Sequence[Path]
    share: float = 1.0
    slos: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """Results of the steady part of a run: bytes, and operations per second by tenant."""

    job: Job
    first_bytes: int
    held_bytes: float
    ops: dict[str, float]
    windows: dict[str, list[float]]

    @property
    def saved_pct(self) -> float:
        """Memory saved, in percent of the memory that the tenants had at first."""
        return 100 * (1 - self.held_bytes / self.first_bytes)


def objectives(job: Job) -> Objectives:
    """Return the objectives of the tenants."""
    policies = (DEFAULT,) if job.mode == "limits" else ()
    if job.mode in ("reference", "senpai"):
        return Objectives((Objective("*", mode=Mode.OBSERVE),))
    slos = [
        Objective(name, throughput_ops=ops, policies=policies) for name, ops in job.slos.items()
    ]
    keep = Objective("*", keep=job.share, policies=policies)
    return Objectives((*slos, keep), Goal.LEAST_MEMORY)


def measured(job: Job) -> Found:
    """Run a node and return its results."""
    law = Senpai().plan if job.mode == "senpai" else None
    with TemporaryDirectory(prefix="cachepilot-one-") as folder:
        node = setup(job.traces, job.seed, job.seconds, Path(folder))
        return _found(job, node, play(node, objectives(job), law=law))


def _found(job: Job, node: Setup, run: Run) -> Found:
    from_s = STEADY_FROM * job.seconds
    steady = {
        one.cgroup: [look for look in run.looks[one.cgroup] if look.time_s >= from_s]
        for one in node.tenants
    }
    return Found(
        job,
        sum(one.limit_bytes for one in node.tenants),
        sum(fmean(look.limit_bytes for look in looks) for looks in steady.values()),
        {name: run.throughput_ops(name, from_s, job.seconds) for name in steady},
        {name: windows(looks) for name, looks in steady.items()},
    )


def slos_of(reference: Found, share: float) -> dict[str, float]:
    """Return SLOs for every other tenant: a share of the first percentile of its seconds."""
    return {
        name: share * quantiles(reference.windows[name], n=100)[0]
        for name in sorted(reference.windows)[::2]
    }


def met_pct(found: Found, slos: Mapping[str, float]) -> float:
    """Return the share of the seconds, in percent, in which tenants met their SLO."""
    return 100 * fmean(ops >= slo for name, slo in slos.items() for ops in found.windows[name])


def kept(found: Found, reference: Found) -> float:
    """Return the throughput of the tenant that lost most, over its throughput with all memory."""
    return min(found.ops[name] / ops for name, ops in reference.ops.items())


@dataclass(frozen=True)
class Outcome:
    """All nodes of one seed in one mode."""

    saved_pct: float
    met_pct: float
    kept: float


def outcome(
    found: Sequence[Found], references: Mapping[int, Found], slos: Mapping[int, dict[str, float]]
) -> Outcome:
    """Return the outcome of all nodes together. `kept` is that of the worst tenant of all nodes."""
    first, held = sum(one.first_bytes for one in found), sum(one.held_bytes for one in found)
    return Outcome(
        100 * (1 - held / first),
        fmean(met_pct(one, slos[one.job.node]) for one in found),
        min(kept(one, references[one.job.node]) for one in found),
    )


def _jobs(
    seed: int, groups: Sequence[Sequence[Path]], seconds: float, references: Mapping[int, Found]
) -> list[Job]:
    found = []
    for node, group in enumerate(groups):
        for share in SHARES.values():
            slos = slos_of(references[node], share)
            found += [
                Job(seed, node, mode, seconds, group, share, slos)
                for mode in ("policies", "limits")
            ]
        found.append(Job(seed, node, "senpai", SENPAI_TIMES * seconds, group))
    return found


def rows(found: Mapping[str, Sequence[Outcome]]) -> list[Row]:
    """Return `consolidation.one.*` from outcomes by mode and share, with one outcome per seed."""
    made: list[Row] = []
    for name, outcomes in found.items():
        made += Row.worst_of(
            f"consolidation.one.{name}.saved_pct",
            [one.saved_pct for one in outcomes],
            "%",
            better="higher",
            reference=f"{ABOUT}; {PUBLISHED}",
        )
        made += Row.worst_of(
            f"consolidation.one.{name}.windows_met_pct",
            [one.met_pct for one in outcomes],
            "%",
            goal=None if name.startswith("senpai") else WINDOWS_MET_PCT,
            better="higher",
            reference="one-second windows of SLOs",
        )
        made += Row.worst_of(
            f"consolidation.one.{name}.worst_tenant",
            [one.kept for one in outcomes],
            "ratio",
            goal=SHARES.get(name.partition(".")[0]),
            better="higher",
            reference="its throughput with all of its memory",
        )
    return made


def measure(seconds: float, seeds: int, folder: Path | None, most_nodes: int | None) -> list[Row]:
    """Run all seeds, two runs side by side."""
    groups = nodes(folder)[:most_nodes]
    numbers = range(1, seeds + 1)
    first = [
        Job(seed, node, "reference", seconds, group)
        for seed in numbers
        for node, group in enumerate(groups)
    ]
    references: dict[int, dict[int, Found]] = {seed: {} for seed in numbers}
    for one in side_by_side(measured, first):
        references[one.job.seed][one.job.node] = one
        say(f"one node, seed {one.job.seed}, node {one.job.node}: reference")
    jobs = [job for seed in numbers for job in _jobs(seed, groups, seconds, references[seed])]
    runs: dict[tuple[str, int], list[Found]] = {}
    for one in side_by_side(measured, jobs):
        job = one.job
        share = next((name for name, part in SHARES.items() if part == job.share), "")
        name = ".".join(filter(None, (share, job.mode)))
        runs.setdefault((name, job.seed), []).append(one)
        worst = kept(one, references[job.seed][job.node])
        say(
            f"one node, seed {job.seed}, node {job.node}, {job.mode} {share}: "
            f"{one.saved_pct:.1f}% less, worst tenant {worst:.3f}"
            + (f", {met_pct(one, job.slos):.1f}% of windows met" if job.slos else "")
        )
    outcomes: dict[str, list[Outcome]] = {}
    for (name, seed), found in runs.items():
        before = references[seed]
        # Senpai's law has no SLO to meet, so its results are compared with both shares.
        for label in SHARES if name == "senpai" else [name.partition(".")[0]]:
            slos = {node: slos_of(one, SHARES[label]) for node, one in before.items()}
            row = f"senpai.{label}" if name == "senpai" else name
            outcomes.setdefault(row, []).append(outcome(found, before, slos))
    return rows(outcomes)
