# SPDX-License-Identifier: Apache-2.0
"""A client for the controller's HTTP interface."""

import httpx
from pydantic import TypeAdapter

from cachepilot.api.shapes.detail import TenantDetail
from cachepilot.api.shapes.questions import Pin
from cachepilot.api.shapes.views import DecisionView, NodeView, TenantView

TIMEOUT_SECONDS = 5.0
_NODES = TypeAdapter(list[NodeView])
_TENANTS = TypeAdapter(list[TenantView])
_HISTORY = TypeAdapter(list[DecisionView])
HISTORY_MAX = 1000


class ControllerClient:
    """Asks a controller, and pins policies. Raises `httpx.HTTPError` when it does not answer."""

    def __init__(self, url: str) -> None:
        """Create a client. `url` is the controller's, such as http://127.0.0.1:7071."""
        self._http = httpx.Client(base_url=f"{url}/api/v1", timeout=TIMEOUT_SECONDS)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def nodes(self) -> list[NodeView]:
        """Return every node that was ever seen."""
        return _NODES.validate_json(self._http.get("/nodes").raise_for_status().content)

    def tenants(self) -> list[TenantView]:
        """Return every tenant of every node."""
        return _TENANTS.validate_json(self._http.get("/tenants").raise_for_status().content)

    def detail(self, cgroup: str) -> TenantDetail:
        """Return one tenant with its curves."""
        found = self._http.get("/tenants/detail", params={"cgroup": cgroup}).raise_for_status()
        return TenantDetail.model_validate_json(found.content)

    def history(self) -> list[DecisionView]:
        """Return the last decisions of all tenants, newest first."""
        found = self._http.get("/history", params={"limit": HISTORY_MAX}).raise_for_status()
        return _HISTORY.validate_json(found.content)

    def pin(self, cgroup: str, policy: str) -> None:
        """Fix the policy of a tenant."""
        pin = Pin(cgroup=cgroup, policy=policy)
        self._http.post("/pins", json=pin.model_dump(exclude_none=True)).raise_for_status()
