# SPDX-License-Identifier: Apache-2.0
"""One of three tenants moves from a node to another: the rows `consolidation.machine.*`.

Nodes are virtual machines with the patched kernel, and tenants are YCSB clients on RocksDB. Every
tenant has an SLO, which is stated after its throughput has been measured.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from experiments.autopilot.children import Children
from experiments.autopilot.scenario import Device
from experiments.consolidation.machine.guests import Guests, Program
from experiments.consolidation.moving.client import Client
from experiments.consolidation.moving.measured import Followed, Kept, Outcome, Taken, outcome
from experiments.consolidation.moving.proof import SLO_SHARE
from experiments.shared.rows import Row

from cachepilot.api.shapes.questions import Drain
from cachepilot.api.shapes.rollout import RolloutView
from cachepilot.domain.moving import MoveState
from cachepilot.domain.slos import GOAL

MIB = 1 << 20
LIMIT_BYTES = 7 * MIB
NODES = {
    "left": [Program("lookups", "--workload c --zipf 0.9", LIMIT_BYTES)],
    "right": [
        Program("pages", "--workload c --zipf 0.8", LIMIT_BYTES),
        Program("feeds", "--workload c --zipf 0.7", LIMIT_BYTES),
    ],
}
EMPTIED = "left"
BUDGET_BYTES = 24 * MIB
"""Budget of each node: the memory of three such tenants, and a margin for a tenant that moves."""
DEVICE = Device(read_us=80_000.0, parallelism=32, iops=1000)
"""Slow enough to dominate: an emulated CPU takes a third of the time that an operation waits for
it.
"""
RECORDS = 30_000
"""Each database has some 30 MiB, more than a tenant's limit can become, so that misses decide."""
READY_S, SETTLED_S, PLANNED_S, MOVED_S = 900.0, 90.0, 300.0, 900.0
MEASURED_S = 80.0
ROLLOUTS_MAX = 5


def _slos(taken: Taken) -> Mapping[str, float]:
    return {one: SLO_SHARE * ops for one, found in taken.items() if (ops := found.mean_ops)}


def _planned(client: Client) -> Drain:
    found: list[Drain] = []

    def is_there() -> bool:
        found[:] = [one for one in client.consolidation().drains if one.node == EMPTIED]
        return bool(found)

    client.until(f"a plan that drains {EMPTIED}", is_there, PLANNED_S)
    return found[0]


def _carried_out(client: Client, followed: Followed, tell: Callable[[str], None]) -> RolloutView:
    """Carry out a plan, and return its rollout.

    If a rehearsal finds that too little memory is left, the next plan is tried. A tenant that
    missed its SLO in a rehearsal then counts with more memory.
    """
    told: set[tuple[int, str]] = set()

    def look(seen: RolloutView) -> None:
        followed.look()
        for one in seen.moves:
            if (seen.id, one.state) not in told:
                told.add((seen.id, one.state))
                tell(f"{one.move.cgroup} to {one.move.to_node}: {one.state}")

    for _ in range(ROLLOUTS_MAX):
        drain = _planned(client)
        tell(f"{drain.node} can be drained: {len(drain.moves)} move (predicted)")
        client.apply([drain])
        found = client.ended(MOVED_S, look)
        tell(f"the rollout ended as {found.state}: {found.why}")
        if all(one.state is not MoveState.SKIPPED for one in found.moves):
            break
    return found


def _is_at_work(client: Client) -> bool:
    told = [one.throughput_ops for one in client.tenants()]
    return len(told) == sum(map(len, NODES.values())) and all(told)


def play(folder: Path, tell: Callable[[str], None]) -> Outcome:
    """Make one run. Logs stay in `folder`."""
    guests = Guests(folder, NODES, BUDGET_BYTES, DEVICE, RECORDS)
    guests.write()
    with Children(folder) as children:
        guests.start(children)
        tell(f"controller: {guests.addresses.http_url}; logs: {folder}")
        with closing(Client(guests.addresses.http_url, children)) as client:
            client.until("a throughput of every tenant", lambda: _is_at_work(client), READY_S)
            followed = Followed(client)
            followed.look_for(SETTLED_S)
            followed.taken()
            followed.look_for(MEASURED_S)
            client.set_slos(_slos(followed.taken()))
            followed.look_for(MEASURED_S)
            before = followed.taken()
            rollout = _carried_out(client, followed, tell)
            moving = followed.taken()
            followed.look_for(MEASURED_S)
            return outcome(client.nodes(), rollout, before, moving, followed.taken())


def measure(runs: int) -> list[Row]:
    """Return the rows of this many runs, each of ten minutes or more."""
    found = []
    for _ in range(runs):
        # The folder is kept, because its logs are needed to find out why something failed.
        folder = Path(tempfile.mkdtemp(prefix="cachepilot-two-guests-"))
        found.append(play(folder, lambda line: print(line, file=sys.stderr, flush=True)))
    return rows_of(found)


def _met_pct(shares: Sequence[float | None]) -> float:
    """Return the share of windows, in percent, of the tenant that met its SLO in the fewest.

    A tenant whose SLO was not evaluated counts as 0.
    """
    return 100 * min(share or 0.0 for share in shares)


def _errors(found: Outcome) -> list[float]:
    moved = [one for one in found.tenants if one.to_node != one.from_node]
    return [error for one in moved if (error := _error(one)) is not None]


def _error(one: Kept) -> float | None:
    if one.after_ops is None or not one.predicted_ops:
        return None
    return abs(one.after_ops / one.predicted_ops - 1)


def rows_of(found: Sequence[Outcome]) -> list[Row]:
    """Return the rows of the outcomes of all runs."""
    prefix = "consolidation.machine."
    emptied = [float(EMPTIED in one.emptied) for one in found]
    rows = Row.worst_of(
        f"{prefix}hosts_saved", emptied, "hosts of 2", goal=1.0, better="higher",
        reference="each tenant where it was", reference_value=0.0,
    )  # fmt: skip
    stretches: dict[str, Callable[[Kept], float | None]] = {
        "before": lambda one: one.met_before,
        "while_moving": lambda one: one.met_moving,
        "after": lambda one: one.met_after,
    }
    for name, share in stretches.items():
        met = [_met_pct([share(tenant) for tenant in one.tenants]) for one in found]
        metric = f"{prefix}windows_met_pct.{name}"
        goal = 100 * GOAL if name == "after" else None
        rows += Row.worst_of(
            metric, met, "%", goal, better="higher",
            reference="of the tenant that met its SLO in the fewest windows",
        )  # fmt: skip
    errors = [error for one in found for error in _errors(one)]
    if errors:
        rows.append(Row(f"{prefix}throughput_error.worst", max(errors), "ratio", goal=0.25,
                        runs=len(found)))  # fmt: skip
    rows.append(Row.of_runs(f"{prefix}rollout_s", [one.rollout_s for one in found], "s"))
    return rows
