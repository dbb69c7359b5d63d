# SPDX-License-Identifier: Apache-2.0
"""Makes the requested runs, and returns the rows of all recorded runs that count."""

from collections.abc import Sequence

from experiments.autopilot.measured import record
from experiments.autopilot_simulated.tenants import traces
from experiments.harvest.machine import streams
from experiments.harvest.machine.gains import Run, rows
from experiments.harvest.machine.running import AUTOPILOT, DEFAULT, NAME, World, run
from experiments.harvest.pinned import may_choose
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row

TOGETHER = 2
"""Streams of a round. With fewer, processors are idle. With more, a stream misses less per second,
and the decider has less to decide by.
"""
SECONDS = 400
QUICK_SECONDS = 30
LATENCY_US = 10_000
"""Long enough that the speed of an emulated processor matters little."""


def world(quick: bool) -> World:
    """Return the project's own recordings, two at a time.

    Neighbours by name are in different rounds.
    """
    found = streams.load(traces(None))
    apart = len(found) // TOGETHER
    rounds = [found[first::apart] for first in range(apart)]
    sides = [DEFAULT, AUTOPILOT, *may_choose()]
    if quick:
        rounds, sides = rounds[:1], sides[:3]
    return World(rounds, sides, QUICK_SECONDS if quick else SECONDS, LATENCY_US)


def tell(number: int, one: Run) -> None:
    """Print what every stream did in a run, by side, as a share of the default."""
    for gain in one.gains():
        sides = ", ".join(f"{side} {gain.over_default(side):.3f}" for side in gain.ops)
        say(f"run {number}: {gain.stream}: {gain.ops[DEFAULT]:.0f} requests/s; {sides}")
        say(f"run {number}: {gain.stream}: {' -> '.join(gain.policies)}")
    verdict = "left out: the host was too busy" if one.is_starved else "counts"
    say(f"run {number}: load {one.load:.1f}, waiting {one.waiting:.2f}, {verdict}")


def measure(numbers: Sequence[int], quick: bool) -> tuple[list[Row], dict[str, str]]:
    """Make the runs with these numbers.

    Return the rows of all kept runs that count, and their origin.

    Runs with `quick` are not kept. Raises ChildError when a part of a run ended too early.
    """
    if quick:
        made = Run(run(world(quick)))
        tell(1, made)
        return rows([made]), made.origin
    for number in numbers:
        document = run(world(quick))
        path = record.write(document, number)
        say(f"run {number}: {document['lasted_s']:.0f} s, {path}")
    kept = [Run(one.document) for one in record.read(NAME)]
    for number, one in enumerate(kept, start=1):
        tell(number, one)
    counted = [one for one in kept if not one.is_starved]
    return (rows(counted), counted[-1].origin) if counted else ([], {})
