# SPDX-License-Identifier: Apache-2.0
"""The scenario of `make run`: four tenants that replay recorded programs, one of which changes.

Two simulated nodes run the same tenants with the same seed at the same time, each on its own
device. `default` keeps the kernel's policy and equal limits, and `autopilot` is controlled by the
autopilot. The comparison is therefore of measurements, second by second, under the same load.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from experiments.autopilot.timeline import AUTOPILOT, Window

MIB = 1 << 20
LOOKUPS_OPS = 4000.0
GUEST_LOOKUPS_OPS = 700.0
TRACES = Path(__file__).resolve().parent.parent / "recorded_traces"


@dataclass(frozen=True)
class Phase:
    """A recorded trace, replayed repeatedly until the phase ends; 0 in `lasts_s` means never."""

    trace: str
    lasts_s: float = 0.0


@dataclass(frozen=True)
class Tenant:
    """A workload of operations in a closed loop; the simulated node documents the parameters."""

    name: str
    phases: tuple[Phase, ...]
    concurrency: int
    accesses_per_op: int
    service_us: float
    throughput_ops: float | None = None
    memory_min: str = ""
    """Least memory in the objectives file, as written there."""
    priority: int = 0


@dataclass(frozen=True)
class Device:
    """The device that the tenants of a node share."""

    read_us: float
    parallelism: int
    iops: int


@dataclass(frozen=True)
class Scenario:
    """Tenants, the node's memory, its device, and the times of the comparison."""

    tenants: tuple[Tenant, ...]
    budget_bytes: int
    device: Device
    seconds: float
    change_s: float
    settle_s: float
    """Seconds that a window leaves out after the start and after the change, while models are
    learnt.
    """
    seed: int = 1

    @property
    def equal_limit_bytes(self) -> int:
        """Limit of each tenant at the beginning, on both nodes."""
        return self.budget_bytes // len(self.tenants) // 4096 * 4096

    @property
    def slos(self) -> dict[str, float]:
        """The SLO of throughput, by tenant."""
        return {t.name: t.throughput_ops for t in self.tenants if t.throughput_ops is not None}

    def windows(self, ended_s: float) -> list[Window]:
        """Return the steady windows before and after the change, of a run that lasted `ended_s`."""
        before = Window("before the change", self.settle_s, min(self.change_s, ended_s))
        after = Window("after the change", self.change_s + self.settle_s, ended_s)
        return [window for window in (before, after) if window.to_s > window.from_s]

    def objectives(self) -> str:
        """Return the objectives file. It has objectives for the autopilot's tenants only."""
        lines = ["# SPDX-License-Identifier: Apache-2.0"]
        for tenant in self.tenants:
            lines += ["", "[[tenant]]", f'cgroup = "/{AUTOPILOT}/{tenant.name}"']
            if tenant.throughput_ops is not None:
                lines += [f"throughput_ops = {tenant.throughput_ops:g}"]
            if tenant.priority:
                lines += [f"priority = {tenant.priority}"]
            if tenant.memory_min:
                lines += [f'memory_min = "{tenant.memory_min}"']
        return "\n".join(lines) + "\n"


def recorded(seconds: float = 90.0) -> Scenario:
    """Return the four tenants of `make run`.

    At half time `batch` changes from builds to searches.
    """
    change = seconds / 2
    return Scenario(
        tenants=(
            Tenant(
                "lookups",
                (Phase("rocksdb_points"),),
                *(2, 2, 300.0),
                throughput_ops=LOOKUPS_OPS,
                priority=1,
            ),
            Tenant("mixed", (Phase("rocksdb_get_scan"),), 2, 2, 300.0),
            Tenant("search", (Phase("source_search"),), 2, 8, 1600.0),
            # Compilers mostly compute, so without a least memory the planner would move it to other
            # tenants.
            Tenant(
                "batch",
                (Phase("build", change), Phase("source_search")),
                *(2, 8, 6000.0),
                memory_min="9MiB",
            ),
        ),
        budget_bytes=64 * MIB,
        device=Device(read_us=400.0, parallelism=32, iops=6000),
        seconds=seconds,
        change_s=change,
        settle_s=min(25.0, seconds / 4),
    )


def real(seconds: float = 180.0) -> Scenario:
    """Return the scenario in a virtual machine: the programs themselves, one side after the other.

    guest_tenants.sh starts the programs, which determine how many operations are in flight. No
    tenant has a least memory. A tenant without an SLO is protected because it keeps most of its
    throughput.
    """
    simulated = recorded(seconds)
    asked = {"lookups": GUEST_LOOKUPS_OPS}
    return replace(
        simulated,
        tenants=tuple(
            replace(t, throughput_ops=asked.get(t.name), memory_min="", priority=0)
            for t in simulated.tenants
        ),
        budget_bytes=64 * MIB,
        device=Device(read_us=500.0, parallelism=32, iops=600),
        settle_s=min(60.0, seconds / 4),
    )
