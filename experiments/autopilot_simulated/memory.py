# SPDX-License-Identifier: Apache-2.0
"""Four tenants of different skew share a fixed memory: HOLPACA's Figures 5 and 6, scaled.

The autopilot is compared with a static equal split and with simulated annealing, neither of which
changes policies. Policies change only on the side of `optimal`. HOLPACA is about the sum of
throughputs. That is therefore the goal, and no tenant has a share of its own throughput to keep.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from experiments.autopilot_simulated.rig import Run, Setup, Tenant, play
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row
from experiments.shared.side_by_side import side_by_side

from cachepilot.domain.objectives.objective import Goal, Objective, Objectives
from cachepilot.plan.problem.config import Config
from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.sizes import parse_size

PAGES = 40_000
ALPHAS = {"zipf12": 1.2, "zipf09": 0.9, "zipf06": 0.6}
LIMIT_BYTES = 16 << 20
FLOOR = "2MiB"
# With these times misses decide, as on the throttled disk of the paper.
SERVICE_US = 20.0
READ_US = 500.0
IOPS = 4000
STEADY_FROM = 0.6
ALLOCATORS = ("static", "annealing", "optimal")
GOALS = {"static": 1.99, "annealing": 1.10}


def node(seconds: float, seed: int) -> Setup:
    """Return the tenants, which differ only in the skew of their reads."""
    sources = {
        name: {"kind": "zipf", "alpha": alpha, "pages": PAGES} for name, alpha in ALPHAS.items()
    }
    sources["uniform"] = {"kind": "uniform", "pages": PAGES}
    tenants = [
        Tenant(f"/{name}", LIMIT_BYTES, [{"source": source}], service_us=SERVICE_US)
        for name, source in sources.items()
    ]
    budget = LIMIT_BYTES * len(tenants)
    return Setup(tenants, budget, seconds, read_us=READ_US, iops=IOPS, seed=seed)


def _throughput(run: Run, setup: Setup) -> float:
    from_s = STEADY_FROM * setup.seconds
    return sum(run.throughput_ops(one.cgroup, from_s, setup.seconds) for one in setup.tenants)


def asked_of(allocator: str) -> Objectives:
    """Return the objectives on the side of an allocator."""
    policies = () if allocator == "optimal" else (DEFAULT,)
    stated = Objective("*", memory_min=parse_size(FLOOR), keep=0.0, policies=policies)
    return Objectives((stated,), Goal.TOTAL_THROUGHPUT)


@dataclass(frozen=True)
class Job:
    """One side of one run."""

    seed: int
    allocator: str
    seconds: float


def total_ops(job: Job) -> float:
    """Return operations per second of all four tenants, once memory has been distributed."""
    setup = node(job.seconds, job.seed)
    config = Config(allocator=job.allocator, seed=job.seed)
    return _throughput(play(setup, asked_of(job.allocator), config), setup)


def rows(found: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return `autopilot.simulated.memory.vs_*`.

    `found` has operations per second by allocator, one value per seed.
    """
    return [
        Row.of_runs(
            f"autopilot.simulated.memory.vs_{name}",
            [ours / theirs for ours, theirs in zip(found["optimal"], found[name], strict=True)],
            "ratio",
            better="higher",
            goal=goal,
            reference=f"{name}, operations per second of four tenants together",
            reference_value=median(found[name]),
        )
        for name, goal in GOALS.items()
    ]


def measure(seconds: float, seeds: int) -> Sequence[Row]:
    """Measure `autopilot.simulated.memory.vs_static` and `.vs_annealing`, with a ratio per seed."""
    jobs = [Job(seed, name, seconds) for seed in range(1, seeds + 1) for name in ALLOCATORS]
    found: dict[str, list[float]] = {name: [] for name in ALLOCATORS}
    for job, ops in zip(jobs, side_by_side(total_ops, jobs), strict=True):
        say(f"memory, {job.allocator}, seed {job.seed}: {ops:,.0f} ops/s")
        found[job.allocator].append(ops)
    return rows(found)
