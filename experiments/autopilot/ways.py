# SPDX-License-Identifier: Apache-2.0
"""Ways to run a scenario, from the first process to the last sample."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from time import time

from experiments.autopilot import embedded, guest, scenario, watching
from experiments.autopilot.children import Children
from experiments.autopilot.configs import Addresses
from experiments.autopilot.controller_client import ControllerClient
from experiments.autopilot.timeline import Timeline


@dataclass(frozen=True)
class Way:
    """A way to run a scenario: on two simulated nodes at once, or in a guest one side at a time."""

    start: Callable[[Children, Path, scenario.Scenario], Addresses]
    ready_seconds: float
    ready_tenants: int
    sides_in_turn: int

    def seconds(self, chosen: scenario.Scenario) -> float:
        """Return how long the run is followed, from when the first tenants are measured."""
        return self.sides_in_turn * chosen.seconds


WAYS = {
    "simulated": Way(embedded.start, embedded.READY_SECONDS, 8, 1),
    "vm": Way(guest.start, guest.READY_SECONDS, 4, 2),
}


def play(
    way: Way,
    chosen: scenario.Scenario,
    folder: Path,
    stay: bool,
    tell: Callable[[str], None],
    shown: AbstractContextManager[watching.Watcher],
) -> Timeline:
    """Start everything, follow it to its end, and stop it. Logs stay in `folder`.

    With `stay`, Ctrl-C ends it. Raises ChildError when a part ends, DemoError when a part is
    silent.
    """
    # Simulated workloads begin with their agent, those in a guest some time after it.
    timeline = Timeline(origin_s=time() if way.sides_in_turn == 1 else None)
    until = None if stay else way.seconds(chosen)
    with Children(folder) as children:
        addresses = way.start(children, folder, chosen)
        tell(f"controller: {addresses.http_url}; logs: {folder}")
        with closing(ControllerClient(addresses.http_url)) as client:
            watching.await_ready(children, client, way.ready_tenants, way.ready_seconds)
            with shown as watcher:
                try:
                    is_over = (lambda _: False) if until is None else until.__le__
                    watching.follow(children, client, timeline, is_over, watcher)
                except KeyboardInterrupt:
                    if not stay:
                        raise
    return timeline
