# SPDX-License-Identifier: Apache-2.0
"""What somebody may do."""

from enum import StrEnum

LOOKING = ("GET", "HEAD")


class Role(StrEnum):
    """What a token is good for: a viewer may only GET."""

    VIEWER = "viewer"
    OPERATOR = "operator"

    def may(self, method: str) -> bool:
        """Whether a request of this method is allowed."""
        return self is Role.OPERATOR or method in LOOKING
