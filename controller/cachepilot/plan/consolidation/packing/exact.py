# SPDX-License-Identifier: Apache-2.0
"""Choose the nodes to drain by a mixed-integer program (HiGHS through SciPy).

Variables are 0 or 1: node n is drained; node n runs at read time g; tenant i is on node n at g.
Each tenant is on one node, at the read time at which the node runs. Memory, reads and CPUs of a
node that runs at g are within its capacity. The same applies at past times: beyond the present
needs a node keeps free the most by which its tenants needed more at once. This is one variable each
for memory, reads and CPUs. The program drains as many nodes as possible, and among packings with as
many it moves the least memory. It leaves out two things, and its result is checked for them: the
loss of a node, and the whole margin of measured CPUs. The margin counts in proportion to what a
tenant needs (`Loads.cpu_shares`), which never overstates it.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from cachepilot.domain.snapshot import FloatArray
from cachepilot.plan.consolidation.least.cpus import without_margin
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds
from cachepilot.plan.consolidation.packing.loads import Loads
from cachepilot.plan.consolidation.packing.rules import Rules

VARIABLES_MAX = 4000
"""The largest program; larger fleets are left to the heuristic."""
TIME_LIMIT_S = 2.0
KEPT = 3
"""The number of resources that a node keeps free: memory, reads and CPUs."""


@dataclass(frozen=True)
class Exact:
    """The result of the program.

    The nodes drained, where their tenants go, and an upper bound on how many can be drained.
    """

    drained: tuple[int, ...]
    to: dict[int, int]
    most: int


class _Rows:
    """Constraints, one per row: bounds of a sum of variables times factors."""

    def __init__(self) -> None:
        self.cells: list[tuple[int, int, float]] = []
        self.least: list[float] = []
        self.most: list[float] = []

    def add(self, terms: list[tuple[int, float]], least: float, most: float) -> None:
        row = len(self.most)
        self.cells += [(row, column, factor) for column, factor in terms]
        self.least.append(least)
        self.most.append(most)

    def constraint(self, variables: int) -> LinearConstraint:
        rows, columns, factors = (np.array(one) for one in zip(*self.cells, strict=True))
        shape = (len(self.most), variables)
        table = coo_array((factors, (rows, columns)), shape=shape).tocsc()
        return LinearConstraint(table, np.array(self.least), np.array(self.most))


class _Program:
    """The program of one fleet."""

    def __init__(self, needs: FleetNeeds, loads: Loads, rules: Rules) -> None:
        self._needs, self._loads, self._rules = needs, loads, rules
        self._nodes, self._times = len(needs.places), needs.read_us.size
        self._homes = needs.homes.tolist()
        self._takes_in = loads.spare_now(np.arange(self._nodes))[0] >= 0
        self._then = needs.past.worst()
        self._on: dict[tuple[int, int, int], int] = {}
        self._at: dict[tuple[int, int], int] = {}
        self._count = self._nodes * (1 + self._times)
        for tenant, node, at in product(range(needs.count), range(self._nodes), range(self._times)):
            if self._may_be(tenant, node, at):
                self._on[tenant, node, at] = self._count
                self._count += 1
        self._whole = self._count
        if self._then.size:
            for tenant, node in sorted({(tenant, node) for tenant, node, _ in self._on}):
                self._at[tenant, node] = self._count
                self._count += 1
            self._count += KEPT * self._nodes

    def _may_be(self, tenant: int, node: int, at: int) -> bool:
        if not self._takes_in[node]:
            # A node that lacks room for its own tenants keeps all of them, or all of them leave.
            return at == 0 and node == self._homes[tenant]
        if not self._loads.runs[node, at]:
            return False
        if node == self._homes[tenant]:
            return bool(self._needs.kept[at, tenant] or not self._needs.must[tenant])
        free = self._rules.may_go[tenant, node] and not self._rules.pinned[tenant]
        return bool(free and self._needs.kept[at, tenant])

    @property
    def count(self) -> int:
        """The number of variables."""
        return self._count

    def _runs(self, node: int, at: int) -> int:
        return self._nodes + node * self._times + at

    def _costs(self) -> FloatArray:
        """A drained node counts 1, and all memory moved together counts less than 1."""
        cost = np.zeros(self._count)
        cost[: self._nodes] = -1.0
        whole = max(1.0, float(self._needs.size_bytes.max(axis=0, initial=0).sum()))
        for (tenant, node, at), column in self._on.items():
            if node != self._homes[tenant]:
                cost[column] = 0.5 * float(self._needs.size_bytes[at, tenant]) / whole
        return cost

    def _constraint(self) -> LinearConstraint:
        rows, needs, loads = _Rows(), self._needs, self._loads
        by_seat: dict[tuple[int, int], list[tuple[int, int]]] = {}
        by_tenant: dict[int, list[tuple[int, float]]] = {one: [] for one in range(needs.count)}
        at_home: dict[int, list[tuple[int, float]]] = {one: [] for one in range(needs.count)}
        for (tenant, node, at), column in self._on.items():
            by_seat.setdefault((node, at), []).append((tenant, column))
            by_tenant[tenant].append((column, 1.0))
            if node == self._homes[tenant]:
                at_home[tenant].append((column, 1.0))
        for tenant, home in enumerate(self._homes):
            rows.add(by_tenant[tenant], 1.0, 1.0)
            rows.add([*at_home[tenant], (home, 1.0)], 1.0, 1.0)
        rows.add([(node, 1.0) for node in range(self._nodes)], 0.0, self._nodes - 1.0)
        for node in range(self._nodes):
            at_once = [(self._runs(node, at), 1.0) for at in range(self._times)]
            rows.add([*at_once, (node, 1.0)], 1.0, 1.0)
            for at in range(self._times if self._takes_in[node] else 0):
                seats = by_seat.get((node, at), [])
                for shares in (
                    needs.size_bytes[at] / loads.budget_bytes[node],
                    needs.device_iops[at] / loads.capacity_iops[node],
                    loads.cpu_shares(needs, node),
                ):
                    if shares.any():
                        terms = [(column, float(shares[tenant])) for tenant, column in seats]
                        rows.add([*terms, (self._runs(node, at), -1.0)], -np.inf, 0.0)
                for _, column in seats:
                    rows.add([(column, 1.0), (self._runs(node, at), -1.0)], -np.inf, 0.0)
        if self._then.size:
            self._keep_free(rows)
        self._keep_apart(rows)
        return rows.constraint(self._count)

    def _keep_free(self, rows: _Rows) -> None:
        """Require room for what the tenants of a node need, plus what they needed more at most."""
        needs, loads, past = self._needs, self._loads, self._needs.past
        seats: dict[tuple[int, int], list[tuple[int, int]]] = {one: [] for one in self._at}
        for (tenant, node, at), column in self._on.items():
            seats[tenant, node].append((at, column))
        for seat, column in self._at.items():
            rows.add([(column, 1.0), *((one, -1.0) for _, one in seats[seat])], 0.0, 0.0)
        for node in np.flatnonzero(self._takes_in).tolist():
            own = [(tenant, column) for (tenant, on), column in self._at.items() if on == node]
            kept = self._count - KEPT * (self._nodes - node)
            memory, reads = float(loads.budget_bytes[node]), float(loads.capacity_iops[node])
            cpus = np.tile(loads.cpu_shares(needs, node), (self._times, 1))
            most_cpus = float(without_margin(loads.cpus[node]))
            for free, (shares, more) in enumerate(
                (
                    (needs.size_bytes / memory, past.more_bytes / memory),
                    (needs.device_iops / reads, past.more_iops / reads),
                    (cpus, past.more_cpus / most_cpus),
                ),
                start=kept,
            ):
                if not (shares.any() or more.any()):
                    continue
                present = [
                    (column, float(shares[at, tenant]))
                    for tenant, _ in own
                    for at, column in seats[tenant, node]
                ]
                rows.add([*present, (free, 1.0), (node, 1.0)], -np.inf, 1.0)
                for then in self._then.tolist():
                    needed = [(column, float(more[tenant, then])) for tenant, column in own]
                    rows.add([*needed, (free, -1.0)], -np.inf, 0.0)

    def _keep_apart(self, rows: _Rows) -> None:
        """Forbid two tenants that must be apart on one node, unless both are there now."""
        for one, sets in self._rules.apart.items():
            for other in set().union(*sets) - {one}:
                for node in range(self._nodes):
                    if self._homes[one] == self._homes[other] == node:
                        continue
                    pair = [
                        (column, 1.0)
                        for at in range(self._times)
                        for tenant in (one, other)
                        if (column := self._on.get((tenant, node, at))) is not None
                    ]
                    if pair:
                        rows.add(pair, -np.inf, 1.0)

    def solve(self, known: int) -> Exact | None:
        """Return the best packing that was found in time; None if none was.

        The presolve of HiGHS sometimes excludes the optimum. A bound below `known`, the number of
        nodes that some packing drains, reveals this. The program is then solved without presolve.
        """
        exact = self._solved(presolve=True)
        if exact is not None and exact.most < known:
            exact = self._solved(presolve=False)
        return exact

    def _solved(self, presolve: bool) -> Exact | None:
        found = milp(
            self._costs(),
            integrality=np.arange(self._count) < self._whole,
            bounds=Bounds(0, 1),
            constraints=self._constraint(),
            options={"time_limit": TIME_LIMIT_S, "presolve": presolve},
        )
        if found.x is None:
            return None
        drained = tuple(np.flatnonzero(found.x[: self._nodes] > 0.5).tolist())
        to = {
            tenant: node
            for (tenant, node, _), column in self._on.items()
            if node != self._homes[tenant] and found.x[column] > 0.5
        }
        bound = found.mip_dual_bound if found.mip_dual_bound is not None else -self._nodes
        return Exact(drained, to, max(len(drained), int(np.floor(-bound + 0.5 + 1e-6))))


def solve(needs: FleetNeeds, loads: Loads, rules: Rules, known: int = 0) -> Exact | None:
    """Return the best packing; None if the fleet is too large, or none was found in time.

    `known` is the number of nodes that some other packing drains.
    """
    if needs.count * len(needs.places) > VARIABLES_MAX:
        return None
    program = _Program(needs, loads, rules)
    return program.solve(known) if 0 < program.count <= VARIABLES_MAX else None
