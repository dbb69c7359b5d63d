# SPDX-License-Identifier: Apache-2.0
"""A client that requests consolidation over HTTP."""

import time
from collections.abc import Callable, Mapping, Sequence

import httpx
from experiments.autopilot.children import Children
from pydantic import TypeAdapter

from cachepilot.api.shapes.questions import Consolidation, Drain, Spread
from cachepilot.api.shapes.rollout import RolloutView
from cachepilot.api.shapes.views import NodeView, TenantView
from cachepilot.domain.moving import RolloutState

POLL_S = 0.2
_NODES = TypeAdapter(list[NodeView])
_TENANTS = TypeAdapter(list[TenantView])


class LateError(Exception):
    """An expected event did not happen in time."""


class Client:
    """Asks a controller.

    While it waits, it checks that the processes in `children` are still running.
    """

    def __init__(self, url: str, children: Children) -> None:
        self._http = httpx.Client(base_url=f"{url}/api/v1", timeout=20.0)
        self._children = children

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def tenants(self) -> list[TenantView]:
        """Return every tenant of every node."""
        return _TENANTS.validate_json(self._http.get("/tenants").raise_for_status().content)

    def tenants_of(self, node: str) -> list[TenantView]:
        """Return every tenant of one node."""
        found = self._http.get("/tenants", params={"node": node}).raise_for_status()
        return _TENANTS.validate_json(found.content)

    def nodes(self) -> list[NodeView]:
        """Return every node."""
        return _NODES.validate_json(self._http.get("/nodes").raise_for_status().content)

    def consolidation(self) -> Consolidation:
        """Return the present plan of consolidation."""
        found = self._http.get("/consolidation").raise_for_status()
        return Consolidation.model_validate_json(found.content)

    def spread(self) -> Spread:
        """Return which tenants are to leave which node."""
        found = self._http.get("/consolidation/spread").raise_for_status()
        return Spread.model_validate_json(found.content)

    def apply(self, drains: Sequence[Drain], spreads: bool = False) -> RolloutView:
        """Begin a rollout. Raises httpx.HTTPStatusError if it is refused."""
        moved = [one.model_dump(mode="json") for one in drains]
        body = {"drains": moved, "spreads": spreads}
        found = self._http.post("/consolidation/apply", json=body).raise_for_status()
        return RolloutView.model_validate_json(found.content)

    def set_slos(self, slos_ops: Mapping[str, float]) -> None:
        """Replace all objectives by these SLOs of throughput, by cgroup."""
        stated = [{"cgroup": one, "throughput_ops": ops} for one, ops in slos_ops.items()]
        self._http.put("/objectives", json={"tenant": stated}).raise_for_status()

    def rollout(self) -> RolloutView | None:
        """Return the last rollout, or None."""
        found = self._http.get("/consolidation/rollout").raise_for_status()
        return None if found.content == b"null" else RolloutView.model_validate_json(found.content)

    def until(self, what: str, is_so: Callable[[], bool], within_s: float) -> None:
        """Wait until `is_so`. Raises LateError after `within_s`, ChildError when a process ends."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            self._children.check()
            try:
                if is_so():
                    return
            except httpx.TransportError:
                pass
            time.sleep(POLL_S)
        raise LateError(f"{what}: not within {within_s:g} s")

    def ended(self, within_s: float, look: Callable[[RolloutView], None]) -> RolloutView:
        """Follow a rollout to its end. `look` is called with each state."""
        found: list[RolloutView] = []

        def is_over() -> bool:
            seen = self.rollout()
            if seen is None:
                return False
            look(seen)
            found.append(seen)
            return seen.state is not RolloutState.RUNNING

        self.until("the end of the rollout", is_over, within_s)
        return found[-1]
