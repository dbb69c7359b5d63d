# SPDX-License-Identifier: Apache-2.0
"""Whether any tenant ends below its throughput under the kernel's default with its first memory."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.autopilot_simulated.rig import Setup, Tenant, play
from experiments.autopilot_simulated.tenants import groups, replayed, traces
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row
from experiments.shared.side_by_side import side_by_side

from cachepilot.domain.objectives.objective import Mode, Objective, Objectives
from cachepilot.sizes import PAGE_BYTES, parse_size

OBSERVED = Objectives((Objective("*", mode=Mode.OBSERVE),))
STEADY_FROM = 0.5
"""Share of the run that is warm-up."""


@dataclass(frozen=True)
class Device:
    """The time of an operation, and the additional time of a miss, in us.

    The device is never short: a tenant that reads less must not hide another one's loss.
    """

    service_us: float
    read_us: float
    parallelism: int = 4096
    iops: int = 10_000_000


DEVICES = {"misses": Device(20.0, 500.0), "processors": Device(400.0, 50.0)}
"""The devices, by what determines the speed of a tenant."""


def stays(tenants: Iterable[Tenant]) -> Objectives:
    """Return objectives under which every tenant has its first memory to the end."""
    stated = []
    for one in tenants:
        limit = parse_size(f"{one.limit_bytes // PAGE_BYTES}")
        stated.append(Objective(one.cgroup, memory_min=limit, memory_max=limit))
    return Objectives(tuple(stated))


def moves(_tenants: Iterable[Tenant]) -> Objectives:
    """Return objectives that leave everything to the autopilot."""
    return Objectives((Objective("*"),))


WAYS = {"fixed": stays, "moves": moves}
"""Objectives when memory stays where it is, and when it moves."""
GOALS = {"fixed": 0.98, "moves": Objective("*").keep}


@dataclass(frozen=True)
class Job:
    """A node whose tenants replay one trace each, on a device."""

    group: Sequence[Path]
    device: str
    seed: int
    seconds: float

    def setup(self, folder: Path) -> Setup:
        """Return the node. `folder` receives the traces of its tenants."""
        device = DEVICES[self.device]
        tenants = [replayed(one, self.seed, folder, device.service_us) for one in self.group]
        budget = sum(tenant.limit_bytes for tenant in tenants)
        return Setup(
            tenants,
            budget,
            self.seconds,
            device.read_us,
            device.parallelism,
            device.iops,
            self.seed,
        )


@dataclass(frozen=True)
class Compared:
    """One tenant in the second half of its run, and under the default with its first memory."""

    job: Job
    cgroup: str
    way: str
    policy: str
    limit_bytes: int
    ops: float
    default_ops: float

    @property
    def ratio(self) -> float:
        """Throughput over that of the default; above 1 the tenant gained."""
        return self.ops / self.default_ops


def compare(job: Job) -> list[Compared]:
    """Play a node under the default, then under the autopilot in both ways; return every tenant."""
    with TemporaryDirectory(prefix="cachepilot-never-worse-") as folder:
        setup = job.setup(Path(folder))
        window = (STEADY_FROM * setup.seconds, setup.seconds)
        default = play(setup, OBSERVED)
        found = []
        for way, asked in WAYS.items():
            run = play(setup, asked(setup.tenants))
            for one in setup.tenants:
                last = run.looks[one.cgroup][-1]
                found.append(
                    Compared(
                        job,
                        one.cgroup,
                        way,
                        last.policy,
                        last.limit_bytes,
                        run.throughput_ops(one.cgroup, *window),
                        default.throughput_ops(one.cgroup, *window),
                    )
                )
        return found


def rows(found: Sequence[Compared]) -> list[Row]:
    """Return `autopilot.neverworse.DEVICE.WAY` over all tenants and seeds, and of the worst."""
    made: list[Row] = []
    for device in DEVICES:
        for way, goal in GOALS.items():
            inside = [one for one in found if (one.job.device, one.way) == (device, way)]
            worst = min(inside, key=lambda one: one.ratio)
            made += Row.worst_of(
                f"autopilot.neverworse.{device}.{way}",
                [one.ratio for one in inside],
                "ratio",
                better="higher",
                goal=goal,
                reference="default with the first memory, ops/s of the tenant that fares worst, "
                f"{worst.cgroup}, seed {worst.job.seed}",
                reference_value=worst.default_ops,
            )
    return made


def _tell(one: Compared) -> None:
    say(
        f"{one.job.device}, {one.way}, seed {one.job.seed}: {one.cgroup}: {one.policy}, "
        f"{one.limit_bytes >> 10} KiB: {one.ratio:.3f}"
    )


def measure(
    folder: Path | None, seconds: float, seeds: int, most: int | None = None
) -> Sequence[Row]:
    """Play every trace on either device, in either way, with every seed."""
    jobs = [
        Job(group, device, seed, seconds)
        for device in DEVICES
        for seed in range(1, seeds + 1)
        for group in groups(traces(folder)[:most])
    ]
    found = []
    for compared in side_by_side(compare, jobs):
        for one in compared:
            _tell(one)
            found.append(one)
    return rows(found)
