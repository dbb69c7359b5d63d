# SPDX-License-Identifier: Apache-2.0
"""The roles of HTTP clients, and which requests each may make."""

from enum import StrEnum

LOOKING = ("GET", "HEAD")


class Role(StrEnum):
    """What a token is good for: a viewer may only GET."""

    VIEWER = "viewer"
    OPERATOR = "operator"

    def may(self, method: str) -> bool:
        """Whether this role may send a request with this HTTP method."""
        return self is Role.OPERATOR or method in LOOKING
