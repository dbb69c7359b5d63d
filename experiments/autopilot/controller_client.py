# SPDX-License-Identifier: Apache-2.0
"""What is asked of the controller over HTTP."""

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
    """Asks a controller, and pins; `httpx.HTTPError` when the controller does not answer."""

    def __init__(self, url: str) -> None:
        """`url` is the controller's, such as http://127.0.0.1:7071."""
        self._http = httpx.Client(base_url=f"{url}/api/v1", timeout=TIMEOUT_SECONDS)

    def close(self) -> None:
        """Gives the connections back."""
        self._http.close()

    def nodes(self) -> list[NodeView]:
        """Every node that was ever seen."""
        return _NODES.validate_json(self._http.get("/nodes").raise_for_status().content)

    def tenants(self) -> list[TenantView]:
        """Every tenant of every node."""
        return _TENANTS.validate_json(self._http.get("/tenants").raise_for_status().content)

    def detail(self, cgroup: str) -> TenantDetail:
        """One tenant, with its curves."""
        found = self._http.get("/tenants/detail", params={"cgroup": cgroup}).raise_for_status()
        return TenantDetail.model_validate_json(found.content)

    def history(self) -> list[DecisionView]:
        """The last decisions of all tenants, the newest first."""
        found = self._http.get("/history", params={"limit": HISTORY_MAX}).raise_for_status()
        return _HISTORY.validate_json(found.content)

    def pin(self, cgroup: str, policy: str) -> None:
        """Fixes the policy of a tenant."""
        pin = Pin(cgroup=cgroup, policy=policy)
        self._http.post("/pins", json=pin.model_dump(exclude_none=True)).raise_for_status()
