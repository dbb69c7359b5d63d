# SPDX-License-Identifier: Apache-2.0
"""What is asked of the controller over HTTP."""

import httpx
from pydantic import TypeAdapter

from cachepilot.api.shapes import NodeView, TenantView

TIMEOUT_SECONDS = 5.0
_NODES = TypeAdapter(list[NodeView])
_TENANTS = TypeAdapter(list[TenantView])


class ControllerClient:
    """Reads nodes and tenants; `httpx.HTTPError` when the controller does not answer."""

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
