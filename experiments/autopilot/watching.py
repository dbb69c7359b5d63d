# SPDX-License-Identifier: Apache-2.0
"""Follows a controller over HTTP while all processes that were started are alive."""

import time
from collections.abc import Callable

import httpx
from experiments.autopilot.children import Children
from experiments.autopilot.controller_client import ControllerClient
from experiments.autopilot.timeline import Timeline

from cachepilot.api.shapes.views import NodeView, TenantView

POLL_SECONDS = 0.25
SILENCE_SECONDS = 15.0
"""How long the controller may leave requests unanswered, and a node may send nothing new."""

Watcher = Callable[[list[TenantView], float], None]
"""Called after every look with the tenants and the seconds since the first one."""


class DemoError(Exception):
    """The demonstration cannot go on; the message says why."""


def await_ready(
    children: Children, client: ControllerClient, expected: int, within_seconds: float
) -> None:
    """Wait until `expected` tenants have a throughput.

    Raises DemoError when that takes too long.
    """
    deadline = time.monotonic() + within_seconds
    seen = 0
    while time.monotonic() < deadline:
        children.check()
        try:
            seen = sum(tenant.throughput_ops is not None for tenant in client.tenants())
        except httpx.TransportError:
            seen = 0
        if seen >= expected:
            return
        time.sleep(POLL_SECONDS)
    raise DemoError(
        f"after {within_seconds:g} s only {seen} of {expected} tenants have a throughput"
    )


class _Silence:
    """Notices a node that sends nothing new."""

    def __init__(self) -> None:
        self._moved: dict[str, tuple[float, float]] = {}

    def check(self, nodes: list[NodeView], now: float) -> None:
        """Raise DemoError, with what the controller knows of the node, if a node is silent."""
        for node in nodes:
            last_seen_s, at = self._moved.get(node.name, (-1.0, now))
            if node.last_seen_s != last_seen_s:
                self._moved[node.name] = (node.last_seen_s, now)
            elif now - at > SILENCE_SECONDS:
                why = node.problem or ("connected" if node.connected else "gone")
                raise DemoError(f"{node.name}: no snapshot for {SILENCE_SECONDS:g} s ({why})")


def follow(
    children: Children,
    client: ControllerClient,
    timeline: Timeline,
    is_over: Callable[[float], bool],
    watcher: Watcher,
) -> None:
    """Fill `timeline` until `is_over`, which is called with the seconds since the first look."""
    begun = answered = time.monotonic()
    silence = _Silence()
    while not is_over(time.monotonic() - begun):
        children.check()
        try:
            nodes, tenants = client.nodes(), client.tenants()
        except httpx.TransportError as error:
            if time.monotonic() - answered > SILENCE_SECONDS:
                raise DemoError(f"the controller does not answer: {error}") from None
        else:
            answered = time.monotonic()
            silence.check(nodes, answered)
            timeline.add(nodes, tenants)
            watcher(tenants, answered - begun)
        time.sleep(POLL_SECONDS)
