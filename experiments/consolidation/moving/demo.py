# SPDX-License-Identifier: Apache-2.0
"""Drain two of six simulated nodes with three tenants each, and measure every tenant.

    python -m experiments.consolidation.moving.demo [--json] [--out build/run]

The controller and the agents are the real ones. The controller plans which nodes can be drained.
Two of them are drained, one move at a time. A table shows what was measured for each tenant before
and after. Exit status: 0 if two nodes are empty and every SLO was met, 1 with the reason otherwise,
130 after Ctrl-C.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import httpx
from experiments.autopilot.children import ChildError, Children
from experiments.consolidation.moving.client import Client, LateError
from experiments.consolidation.moving.measured import Followed, Outcome, outcome, table
from experiments.consolidation.moving.processes import Fleet, Node, Tenant
from experiments.shared.rows import ROOT
from rich.console import Console

from cachepilot.api.shapes.questions import Drain
from cachepilot.api.shapes.rollout import MovedView, RolloutView
from cachepilot.cli.terminal.tables import console
from cachepilot.domain.moving import MoveState, RolloutState
from cachepilot.errors import InputError

MIB = 1 << 20
ENDED = (MoveState.KEPT, MoveState.RETURNED, MoveState.FAILED)
NODES, TENANTS, EMPTIED = 6, 3, 2
INTERVAL_MS = 250
NODE_BYTES = 8 * MIB
LIMIT_BYTES = 5 * MIB // 2
FLOOR_BYTES = 3 * MIB // 2
"""Five such tenants fit on a node of 8 MiB, six do not."""
SLO_OPS = 750.0
BEFORE_S = 8.0
"""How long everything is measured before the first move, and after the last."""
READY_S, PLANNED_S, MOVED_S = 60.0, 60.0, 150.0


def nodes() -> list[Node]:
    """Return six nodes. Two tenants in three have an SLO, the others keep their throughput."""
    return [
        Node(f"node{i + 1}", [_tenant(i, j) for j in range(TENANTS)], NODE_BYTES, seed=i + 1)
        for i in range(NODES)
    ]


def _tenant(node: int, number: int) -> Tenant:
    name, slo = (("lookups", SLO_OPS), ("pages", SLO_OPS), ("reports", None))[number]
    pages = (600, 500, 350)[number]
    source = {"kind": "zipf", "alpha": 0.9, "pages": pages, "offset": 10_000 * node}
    return Tenant(
        f"/{name}{node + 1}",
        source,
        LIMIT_BYTES,
        floor_bytes=FLOOR_BYTES,
        throughput_ops=slo,
    )


def _planned(client: Client, tell: Callable[[str], None]) -> list[Drain]:
    """Return the first nodes that can be drained, once there are enough of them."""
    found: list[Drain] = []

    def is_enough() -> bool:
        found[:] = client.consolidation().drains[:EMPTIED]
        return len(found) == EMPTIED

    client.until(f"a plan that drains {EMPTIED} nodes", is_enough, PLANNED_S)
    for drain in found:
        cold_s = sum(one.cold_s for one in drain.moves)
        cost = f"{len(drain.moves)} moves, {cold_s:.2g} s with a cold page cache"
        tell(f"{drain.node} can be drained: {cost} (predicted)")
    return found


def move_line(one: MovedView) -> str:
    """Return a line about a move and its state, in the word that the commands print for it."""
    return f"{one.move.cgroup} to {one.move.to_node}: {one.state.word}"


def play(folder: Path, tell: Callable[[str], None]) -> Outcome:
    """Run the whole demo. Logs stay in `folder`."""
    fleet = Fleet(folder, nodes(), INTERVAL_MS)
    fleet.write()
    count = NODES * TENANTS
    with Children(folder) as children:
        fleet.start_controller(children)
        fleet.start_agents(children)
        tell(f"controller: {fleet.addresses.http_url}; logs: {folder}")
        with closing(Client(fleet.addresses.http_url, children)) as client:
            is_there = lambda: len(client.tenants()) == count  # noqa: E731
            client.until(f"{count} tenants", is_there, READY_S)
            drains = _planned(client, tell)
            followed = Followed(client)
            followed.look_for(BEFORE_S)
            before = followed.taken()
            client.apply(drains)
            told: set[str] = set()

            def look(seen: RolloutView) -> None:
                followed.look()
                for one in seen.moves:
                    line = move_line(one)
                    if one.state in ENDED and line not in told:
                        told.add(line)
                        tell(line)

            rollout = client.ended(MOVED_S, look)
            moving = followed.taken()
            followed.look_for(BEFORE_S)
            return outcome(client.nodes(), rollout, before, moving, followed.taken())


def report(found: Outcome, seconds: float, out: Path, as_json: bool) -> str:
    """Print the table or its numbers. Return why the demo failed; empty when it did not."""
    out.mkdir(parents=True, exist_ok=True)
    document = {"seconds": seconds, **asdict(found)}
    (out / "consolidation.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    if as_json:
        print(json.dumps(document))
    else:
        screen = console()
        for part in table(found):
            screen.print(part, soft_wrap=True)
        screen.print(f"{seconds:.0f} s in total; all numbers: {out / 'consolidation.json'}")
    if found.state != RolloutState.DONE:
        return f"the rollout ended as {found.state}: {found.why}"
    missed = [one.cgroup for one in found.tenants if not one.is_kept]
    return f"missed their SLO or their share of throughput: {', '.join(missed)}" if missed else ""


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="make run CONSOLIDATE=1", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON on stdout")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "run")
    arguments = parser.parse_args()
    screen = Console(stderr=True, highlight=False)
    signal.signal(signal.SIGTERM, _interrupt)
    # The folder is kept, because its logs are needed to find out why something failed.
    folder = Path(tempfile.mkdtemp(prefix="cachepilot-consolidate-"))
    begun = time.monotonic()
    try:
        found = play(folder, lambda line: screen.print(line, soft_wrap=True))
        why = report(found, time.monotonic() - begun, arguments.out, arguments.json)
    except KeyboardInterrupt:
        return 130
    except (ChildError, LateError, InputError, httpx.HTTPError) as error:
        why = str(error)
    if why:
        print(f"make run: {why}", file=sys.stderr)
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
