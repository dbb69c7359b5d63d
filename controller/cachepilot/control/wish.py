# SPDX-License-Identifier: Apache-2.0
"""What one tenant is to have after a cycle."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wish:
    """What one tenant is to have; None leaves it as it is. `ordered` is an operator's."""

    policy: str | None = None
    limit_bytes: int | None = None
    ordered: bool = False


NO_WISH = Wish()
