# SPDX-License-Identifier: Apache-2.0
"""The roles of HTTP clients, and which requests each may make."""

from enum import StrEnum

LOOKING = ("GET", "HEAD")


class Role(StrEnum):
    """The role that a token grants: a viewer may only send GET and HEAD, an operator anything."""

    VIEWER = "viewer"
    OPERATOR = "operator"

    def may(self, method: str) -> bool:
        """Whether this role may send a request with this HTTP method."""
        return self is Role.OPERATOR or method in LOOKING
