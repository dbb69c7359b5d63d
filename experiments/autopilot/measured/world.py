# SPDX-License-Identifier: Apache-2.0
"""The parts of a run in the virtual machine: tenants, and sides that differ in who decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from experiments.autopilot.scenario import Device

from cachepilot.domain.objectives.objective import Goal, Objectives

MIB = 1 << 20
READ_US = 0.0
"""0: unknown, so that the agent learns it. On a throttled disk the throttle sets the time of a
read.
"""


@dataclass(frozen=True)
class Tenant:
    """A program in a cgroup; `kind` is ycsb or search, `arguments` are for it (see guest.sh)."""

    name: str
    kind: str
    arguments: str


@dataclass(frozen=True)
class Side:
    """The tenants for `seconds`, from an empty cache, with their own controller and agent.

    `objectives` is the text of the controller's file, `planner` its section of that name, and
    `pins` the policies that an operator fixes, by tenant. The last `window_s` of the seconds are
    steady.
    """

    name: str
    seconds: int
    window_s: float
    objectives: str = ""
    planner: Mapping[str, object] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    """One run. Every tenant begins each side with an equal part of `budget_bytes`."""

    experiment: str
    tenants: Sequence[Tenant]
    sides: Sequence[Side]
    budget_bytes: int
    iops: int
    records: int
    sources: str = "/usr/include/c++"

    @property
    def limit_bytes(self) -> int:
        """Limit of each tenant at the beginning."""
        return self.budget_bytes // len(self.tenants) // 4096 * 4096

    @property
    def device(self) -> Device:
        """The throttled disk, as agents are configured for it."""
        return Device(read_us=READ_US, parallelism=32, iops=self.iops)


def objectives(
    side: str, statements: Mapping[str, Mapping[str, object]], goal: Goal = Objectives.goal
) -> str:
    """Return an objectives file: keys by tenant of a side, `*` for all tenants of the side."""
    lines = ["# SPDX-License-Identifier: Apache-2.0", f'goal = "{goal}"']
    for tenant, keys in statements.items():
        lines += ["", "[[tenant]]", f'cgroup = "/{side}/{tenant}"']
        lines += [f"{key} = {_toml(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value}"
